from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Run


def test_a_topic_is_created_listed_described_and_deleted(millstream: Run, data: Path) -> None:
    made = millstream("topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=60000")
    assert made == (0, "", "topic orders has 3 partitions\n")
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    millstream("produce", "orders", given="a\nb\n")

    (topic,) = millstream("topics", "list", "--output", "json").lines
    assert topic.pop("size") > 0
    config = {"retention.ms": "60000"}
    assert topic == {"name": "orders", "partitions": 3, "records": 2, "internal": False, "config": config}

    (described,) = millstream("topics", "describe", "orders", "-o", "json").lines
    assert described["config"] == config
    assert [part["records"] for part in described["partitions"]] == [2, 0, 0]
    assert [part["end"] for part in described["partitions"]] == [2, 0, 0]

    assert millstream("topics", "delete", "orders", "--yes").code == 0
    assert millstream("topics", "list").err == "there are no topics\n"


def test_a_table_in_a_pipe_is_plain_and_aligned(millstream: Run) -> None:
    millstream("topics", "create", "orders")
    millstream("topics", "create", "a-topic-with-a-long-name-that-would-not-fit-into-a-column-of-a-narrow-terminal")
    lines = millstream("topics", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "PARTITIONS", "RECORDS", "SIZE", "INTERNAL"]
    assert lines[1].split()[0].endswith("narrow-terminal")
    assert {line.index("0 B") for line in lines[1:]} == {lines[0].index("SIZE")}


def test_a_topic_is_created_once(millstream: Run) -> None:
    assert millstream("topics", "create", "orders", "-p", "2").code == 0
    again = millstream("topics", "create", "orders")
    assert again == (1, "", "error: topic 'orders' exists already\nhint: --if-not-exists leaves it unchanged\n")
    assert millstream("topics", "create", "orders", "--if-not-exists").err == "topic orders has 2 partitions\n"


def test_all_includes_internal_topics(shop: Run) -> None:
    assert {topic["name"] for topic in shop("topics", "list", "-o", "json").lines} == {
        "counts", "numbers", "orders", "prices",
    }  # fmt: skip
    everything = {topic["name"]: topic["internal"] for topic in shop("topics", "list", "--all", "-o", "json").lines}
    assert everything["shop-minutes-changelog"] is True
    assert everything["orders"] is False


def test_compact_prints_the_removed_records(millstream: Run) -> None:
    millstream("topics", "create", "prices", "-c", "cleanup.policy=compact")
    for price in ("1", "2", "3"):
        millstream("produce", "prices", "--key-separator", ":", given=f"tea:{price}\n")
    (done,) = millstream("topics", "compact", "prices", "-o", "json").lines
    assert done["removed_records"] == 2
    assert millstream("consume", "prices", "--from-beginning").out == "tea\t3\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["create", "a b"], 1, "topic name 'a b' is not allowed: ' ' may not occur in it", "use letters"),
        (["create", "x", "-p", "0"], 1, "a topic has 1 to 10000 partitions, not 0", ""),
        (["create", "x", "-p", "many"], 2, "Invalid value for '--partitions' / '-p'", "millstream topics create"),
        (["create", "x", "-c", "cleanup.polici=compact"], 1, "unknown topic configuration key", "'cleanup.policy'?"),
        (["create", "x", "-c", "compact"], 2, "--config: 'compact' is not of the form key=value", ""),
        (["create"], 2, "Missing argument 'NAME'", "see: millstream topics create --help"),
        (["describe", "ordrs"], 1, "there is no topic 'ordrs'", "did you mean 'orders'?"),
        (["delete", "nothing", "--yes"], 1, "there is no topic 'nothing'", "the topics are: orders"),
        (["delete", "orders"], 1, "this cannot be undone, and there is no terminal to ask on", "add --yes"),
        (["compact", "orders"], 1, "topic 'orders'", ""),
        (["list", "--outptu", "json"], 2, "No such option: --outptu", "see: millstream topics list --help"),
        (["lits"], 2, "No such command 'lits'. Did you mean 'list'?", "see: millstream topics --help"),
        (["list", "-o", "xml"], 2, "'xml' is not one of 'table', 'json'", "see: millstream topics list --help"),
    ],
)
def test_a_mistake_is_reported_in_two_lines_at_most(
    millstream: Run, arguments: list[str], code: int, message: str, hint: str
) -> None:
    millstream("topics", "create", "orders")
    result = millstream("topics", *arguments)
    lines = result.err.splitlines()
    assert (result.code, result.out) == (code, "")
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert len(lines) <= 2
    if hint:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]
    assert [topic["name"] for topic in millstream("topics", "list", "-o", "json").lines] == ["orders"]


def test_a_missing_invalid_or_incompatible_data_directory_is_an_error(millstream: Run, data: Path) -> None:
    missing = millstream("topics", "list")
    assert (missing.code, missing.err.splitlines()[0]) == (1, f"error: there is no data directory {data}")
    assert not data.exists()
    data.mkdir(mode=0o700)
    (data / "log.db").write_text("something else")
    other = millstream("topics", "list")
    assert other.code == 1
    assert other.err.startswith(f"error: {data / 'log.db'}")
    (data / "log.db").unlink()
    data.rmdir()
    data.write_text("a file")
    assert millstream("topics", "create", "x").err == f"error: {data} cannot be the data directory: File exists\n"


def test_data_is_also_an_option(millstream: Run, tmp_path: Path) -> None:
    millstream("topics", "create", "there", "--data", str(tmp_path / "other"))
    assert millstream("topics", "list").code == 1
    assert [t["name"] for t in millstream("topics", "list", "--data", str(tmp_path / "other"), "-o", "json").lines] == [
        "there"
    ]
