"""Routes of dead letters: by cause, one by one, and their replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.in_process import Senders, in_process

from millstream.log import ProducerRecord, open_log
from millstream.serve.access.roles import Role

PATH = "/api/v1/dead-letters"


def letter(exception: str, offset: int, value: bytes = b"v", source: str = "orders") -> ProducerRecord:
    facts = {
        "exception": exception, "message": f"it failed at {offset}\x1b[31m", "stacktrace": "File 'app.py', line 12",
        "topic": source, "partition": "0", "offset": str(offset),
    }  # fmt: skip
    headers = (("own", b"1"), *((f"__streams.errors.{name}", text.encode()) for name, text in facts.items()))
    return ProducerRecord(b"k", value, 1_000 + offset, headers)


@pytest.fixture
def dead(data: Path) -> Iterator[Senders]:
    with open_log(data) as log:
        log.create_topic("orders")
        log.create_topic("dead", 2)
        log.create_topic("ordinary")
        log.produce("ordinary", [ProducerRecord(b"k", b"v")])
        letters = [letter("builtins.KeyError", n) for n in range(5)] + [letter("app.Broken", n) for n in range(5, 7)]
        log.produce("dead", [each._replace(partition=n % 2) for n, each in enumerate(letters)])
        log.produce("dead", [letter("builtins.KeyError", 7, source="gone")], partition=0)
    with in_process(data) as server:
        yield Senders(server)


def test_dead_letters_are_counted_by_cause(dead: Senders) -> None:
    (topic,) = dead.get(PATH)["topics"]
    assert (topic["topic"], topic["complete"]) == ("dead", True)
    assert [(group["exception"], group["source"], group["count"], group["pending"]) for group in topic["groups"]] == [
        ("builtins.KeyError", "orders", 5, 5),
        ("app.Broken", "orders", 2, 2),
        ("builtins.KeyError", "gone", 1, 1),
    ]
    assert topic["groups"][0]["message"].startswith("it failed at 4")


def test_dead_letters_are_listed_the_newest_first(dead: Senders) -> None:
    answer = dead.get(f"{PATH}/dead/records", limit=2)
    assert (answer["total"], answer["complete"], len(answer["records"])) == (8, True, 2)
    assert [record["source"]["offset"] for record in answer["records"]] == [7, 6]
    assert dead.get(f"{PATH}/dead/records", exception="Broken")["total"] == 2
    assert dead.get(f"{PATH}/dead/records", source="gone")["total"] == 1
    assert dead.get(f"{PATH}/nothing/records")["error"]["code"] == "unknown-topic"
    (other,) = dead.get(f"{PATH}/ordinary/records")["records"]
    assert (other["exception"], other["source"]) == (None, None)


def test_a_dead_letter_is_shown_with_its_error_and_its_record(dead: Senders) -> None:
    shown = dead.get(f"{PATH}/dead/records/1/0")
    assert {name: shown[name] for name in ("exception", "message", "stacktrace", "source", "replayed", "value")} == {
        "exception": "builtins.KeyError",
        "message": "it failed at 1\x1b[31m",
        "stacktrace": "File 'app.py', line 12",
        "source": {"topic": "orders", "partition": 0, "offset": 1},
        "replayed": False,
        "value": "v",
    }
    assert shown["headers"] == [["own", "1"]]
    assert dead.get(f"{PATH}/dead/records/1/99")["error"]["code"] == "offset-out-of-range"
    assert dead.get(f"{PATH}/dead/records/2/0")["error"]["code"] == "unknown-topic"


def test_dead_letters_are_replayed_once(dead: Senders) -> None:
    path = f"{PATH}/dead/replay"
    dry = dead.post(path, {"dry_run": True})[1]
    assert (dry["replayed"], sum(dry["refused"].values()), dry["dry_run"]) == ({"orders": 7}, 1, True)
    status, answer = dead.post(path, {"exception": "Broken"})
    assert (status, answer["replayed"]) == (200, {"orders": 2})
    assert dead.post(path, {"places": [[1, 0]]})[1]["replayed"] == {"orders": 1}
    assert dead.post(path, {"limit": 1})[1]["replayed"] == {"orders": 1}
    assert dead.post(path, {})[1]["replayed"] == {"orders": 3}
    assert dead.post(path, {})[1]["replayed"] == {}
    assert dead.get(f"{PATH}/dead/records", pending="true")["total"] == 1
    with open_log(dead.server.data) as log:
        assert log.ends(["orders"])["orders"] == [7]
    lines = (dead.server.data / "access" / "audit.log").read_text().splitlines()
    assert [json.loads(line)["what"]["replayed"] for line in lines][-5:] == [2, 1, 1, 3, 0]


@pytest.mark.parametrize(
    "body",
    [{"places": [[0]]}, {"places": [[-1, 0]]}, {"places": "x"}, {"limit": 0}, {"limit": 10_001}, {"exception": 1}, []],
)
def test_a_selection_that_is_not_one_is_refused(dead: Senders, body: object) -> None:
    assert dead.post(f"{PATH}/dead/replay", body)[0] == 422


def test_a_dead_letter_that_does_not_exist_is_not_replayed(dead: Senders) -> None:
    assert dead.post(f"{PATH}/dead/replay", {"places": [[0, 0], [0, 99]]})[0] == 400
    assert dead.post(f"{PATH}/nothing/replay", {})[0] == 404
    assert dead.post(f"{PATH}/dead/replay", {}, role=Role.VIEWER)[0] == 403
    assert dead.get(f"{PATH}/dead/records", pending="true")["total"] == 8


def test_of_very_many_dead_letters_the_last_ones_are_read(dead: Senders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.serve.operations.dead_letters._MOST_READ", 4)
    answer = dead.get(f"{PATH}/dead/records")
    assert (answer["total"], answer["complete"]) == (4, False)
    assert answer["records"][0]["source"]["offset"] == 7
    (topic,) = dead.get(PATH)["topics"]
    assert (topic["complete"], sum(group["count"] for group in topic["groups"])) == (False, 4)
