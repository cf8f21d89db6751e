"""Dead letters on the command line: an application fails, is fixed, and processes its replayed records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from millstream import App, avro, col, contract, rule
from millstream.core.failpoints import EXIT_STATUS
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

PAYMENTS = """
from millstream import App, avro, col, contract, rule

app = App("payments", errors_dead_letter_queue_topic_name="dead", processing_exception_handler="continue")
app.stream("payments", key=str, value=dict).map_values(lambda p: p["amount"] * 100, value=int).to("cents")
"""
MENDED = {"amonut": "amount"}


def payments(data: Path, *, mended: bool = False) -> App:
    """Converts payments to cents; the fixed version also converts those with a misspelt field."""
    app = App(
        "payments",
        config={"state.dir": str(data), "errors.dead.letter.queue.topic.name": "dead"},
        processing_exception_handler="continue",
        deserialization_exception_handler="continue",
    )

    def cents(payment: dict[str, int]) -> int:
        if mended:
            payment = {MENDED.get(name, name): amount for name, amount in payment.items()}
        return payment["amount"] * 100

    app.stream("payments", key=str, value=dict).map_values(cents, value=int).to("cents")
    return app


def run(data: Path, *, mended: bool = False) -> None:
    with InProcessRun(payments(data, mended=mended)) as local:
        local.run()


def cents(data: Path) -> list[int]:
    with open_log(data) as log:
        values = log.read("cents", 0, 0, log.ends(["cents"])["cents"][0])["value"].to_pylist()
    return [int.from_bytes(value) for value in values]


VALUES = (b'{"amount": 2}', b'{"amonut": 3}', b'{"amount": ', b'{"amonut": 5}', b'{"amount": 7}')


@pytest.fixture
def failed(data: Path) -> Path:
    """A data directory in which an application has failed at three of five records."""
    with open_log(data) as log:
        log.create_topic("payments", 2)
        log.create_topic("cents")
        log.create_topic("dead")
        records = [ProducerRecord(b"k", value, 1_000 * n, (("n", b"%d" % n),)) for n, value in enumerate(VALUES, 1)]
        log.produce("payments", records, partition=1)
    run(data)
    assert cents(data) == [200, 700]
    return data


def test_a_fixed_application_processes_replayed_records_exactly_once(millstream: Run, failed: Path) -> None:
    done = millstream("dlq", "replay", "dead", "--execute", "--yes")
    assert done == (0, "3 dead letters of dead were replayed to payments\n", "")
    run(failed, mended=True)
    assert cents(failed) == [200, 700, 300, 500]

    # One of them cannot be processed by the fixed application either: it is a dead letter again.
    again = millstream("dlq", "replay", "dead", "--execute", "--yes")
    assert again == (0, "1 dead letter of dead was replayed to payments\n", "")
    run(failed, mended=True)
    assert cents(failed) == [200, 700, 300, 500]


def test_a_record_that_fails_again_is_a_new_dead_letter_with_a_count_of_returns(millstream: Run, failed: Path) -> None:
    millstream("dlq", "replay", "dead", "0:1", "--execute", "--yes")  # the record that is not JSON
    run(failed, mended=True)
    letters = millstream("dlq", "list", "dead", "-o", "json").lines
    assert [(letter["offset"], letter["state"], letter["returned"]) for letter in letters] == [
        (0, "pending", 0), (1, "replayed", 0), (3, "pending", 1), (2, "pending", 0),
    ]  # fmt: skip
    assert letters[2]["source"] == {"topic": "payments", "partition": 1, "offset": 5}
    (shown,) = millstream("dlq", "show", "dead", "0:3", "-o", "json").lines
    assert shown["headers"][:2] == [["n", "3"], ["__millstream.replay", "dead:0:1"]]
    assert cents(failed) == [200, 700]


def test_headers_of_a_replayed_record_pass_through_the_application(millstream: Run, failed: Path) -> None:
    millstream("dlq", "replay", "dead", "0:0", "--execute", "--yes")
    run(failed, mended=True)
    last = millstream("consume", "cents", "--from-beginning", "--value-serde", "long", "-o", "json").lines[-1]
    assert (last["value"], last["timestamp"]) == (300, 2_000)
    assert last["headers"] == [["n", "2"], ["__millstream.replay", "dead:0:0"]]


def test_the_dead_letter_topics_are_listed(millstream: Run, failed: Path) -> None:
    listed = millstream("dlq", "list")
    assert listed.out.splitlines() == ["TOPIC  LETTERS  PENDING  LAST", "dead         3        3  1970-01-01T00:00:04Z"]
    millstream("dlq", "replay", "dead", "--limit", "1", "--execute", "--yes")
    assert millstream("dlq", "list", "-o", "json").lines == [
        {"topic": "dead", "letters": 3, "pending": 2, "last": 4_000}
    ]


def test_dead_letters_are_listed_with_their_exception(millstream: Run, failed: Path) -> None:
    head, *lines = millstream("dlq", "list", "dead").out.splitlines()
    assert head.split() == ["LETTER", "TIME", "SOURCE", "STATE", "RETURNED", "EXCEPTION", "MESSAGE"]
    assert lines[0].split() == [
        "0:0", "1970-01-01T00:00:02Z", "payments", "1:1", "pending", "0", "builtins.KeyError", "'amount'",
    ]  # fmt: skip
    assert len(lines) == 3
    shown = millstream("dlq", "list", "dead", "--limit", "1")
    assert shown.out.splitlines()[1].startswith("0:2")
    assert shown.err == "2 dead letters of earlier records not shown; --limit shows more\n"


def test_dead_letters_are_filtered_and_counted(millstream: Run, failed: Path) -> None:
    def offsets(*options: str) -> list[int]:
        return [letter["offset"] for letter in millstream("dlq", "list", "dead", "-o", "json", *options).lines]

    assert offsets("--exception", "KeyError") == [0, 2]
    assert offsets("--exception", "millstream.errors.DeserializationError", "--source", "payments") == [1]
    assert offsets("--source", "other") == []
    millstream("dlq", "replay", "dead", "--exception", "KeyError", "--limit", "1", "--execute", "--yes")
    assert offsets("--pending") == [1, 2]
    counted = millstream("dlq", "list", "dead", "--summary", "-o", "json").lines
    assert [list(group.values()) for group in counted] == [
        ["dead", "builtins.KeyError", "payments", 2, 1, 4_000],
        ["dead", "millstream.errors.DeserializationError", "payments", 1, 1, 3_000],
    ]
    assert list(counted[0]) == ["topic", "exception", "source", "letters", "pending", "last"]


def test_an_empty_dead_letter_topic_is_reported(millstream: Run, data: Path) -> None:
    millstream("topics", "create", "dead")
    for command in (["list"], ["list", "dead"], ["list", "dead", "--summary"]):
        assert millstream("dlq", *command) == (0, "", "there are no dead letters\n")
        assert millstream("dlq", *command, "-o", "json") == (0, "", "")
    assert millstream("dlq", "list", "deed").err.startswith("error: there is no topic 'deed'")
    nothing = millstream("dlq", "replay", "dead", "--execute", "--yes")
    assert nothing == (0, "", "there is nothing to replay; see also --again\n")


def test_a_dead_letter_is_shown_completely(millstream: Run, failed: Path) -> None:
    lines = millstream("dlq", "show", "dead", "0:0").out.splitlines()
    assert lines[:9] == [
        "letter     dead 0:0, pending",
        "time       1970-01-01T00:00:02Z",
        "source     payments 1:1",
        "exception  builtins.KeyError",
        "message    'amount'",
        "key        k",
        'value      {"amonut": 3}',
        "header     n: 2",
        "",
    ]
    assert lines[9] == "    Trace" + "back (most recent call last):"
    assert lines[-1] == "    KeyError: 'amount'"


def test_a_dead_letter_is_decoded_with_the_serdes_of_its_source_topic(
    millstream: Run, failed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "payments.py"
    file.write_text(PAYMENTS, encoding="utf-8")
    (shown,) = millstream("dlq", "show", "dead", "0:0", "--app", str(file), "-o", "json").lines
    assert (shown["key"], shown["value"]) == ("k", {"amonut": 3})
    assert shown["stacktrace"].endswith("KeyError: 'amount'\n")
    assert "value      0x7b" in millstream("dlq", "show", "dead", "0:0", "--value-serde", "bytes").out
    unread = millstream("dlq", "show", "dead", "0:1", "--app", str(file)).out
    assert "value      (not json) 0x7b" in unread


@pytest.mark.parametrize("place", ["17", "0:", ":1", "a:b", "0:-1"])
def test_an_invalid_position_of_a_dead_letter_is_refused(millstream: Run, failed: Path, place: str) -> None:
    for command in (["show", "dead", place], ["replay", "dead", place]):
        refused = millstream("dlq", *command)
        assert (refused.code, refused.out) == (2, "")
        assert "write partition and offset, such as 0:17" in refused.err


def test_a_missing_dead_letter_is_an_error(millstream: Run, failed: Path) -> None:
    for command in (["show", "dead", "0:9"], ["replay", "dead", "0:0", "0:9", "--execute", "--yes"]):
        missing = millstream("dlq", *command)
        assert missing.code == 1
        assert missing.err.startswith("error: topic 'dead', partition 0 has no record at offset 9\n")
    assert millstream("dlq", "list", "-o", "json").lines[0]["pending"] == 3


def test_without_execute_nothing_is_replayed(millstream: Run, failed: Path) -> None:
    planned = millstream("dlq", "replay", "dead", "--exception", "KeyError")
    assert planned == (
        0,
        "2 dead letters of dead would be replayed to payments\n",
        "nothing was done; add --execute to replay them\n",
    )
    refused = millstream("dlq", "replay", "dead", "--execute")
    assert refused.code == 1
    assert "add --yes" in refused.err
    (told,) = millstream("dlq", "replay", "dead", "-o", "json").lines
    assert told == {"topic": "dead", "done": False, "letters": {"payments": 3}, "refused": {}}
    assert millstream("groups", "list", "-o", "json").lines[0]["group"] == "payments"
    run(failed, mended=True)
    assert cents(failed) == [200, 700]


def test_dead_letters_that_cannot_be_replayed_are_reported(millstream: Run, failed: Path) -> None:
    millstream("topics", "delete", "payments", "--yes")
    result = millstream("dlq", "replay", "dead", "--execute", "--yes")
    assert result.code == 0
    assert result.err.startswith("3 dead letters cannot be replayed: there is no topic 'payments'\n")
    millstream("topics", "create", "payments", "--partitions", "2")
    (done,) = millstream("dlq", "replay", "dead", "--execute", "--yes", "-o", "json").lines
    assert done == {"topic": "dead", "done": True, "letters": {"payments": 3}, "refused": {}}


def test_a_replay_is_a_group_with_a_lag(millstream: Run, failed: Path) -> None:
    millstream("dlq", "replay", "dead", "--limit", "1", "--execute", "--yes")
    assert millstream("groups", "describe", "dead-replay", "-o", "json").lines == [
        {"topic": "dead", "partition": 0, "offset": 1, "end": 3, "lag": 2}
    ]


@pytest.mark.parametrize(
    "point", ["log.publish.begin", "log.publish.after-appends", "log.publish.before-commit", "log.publish.after-commit"]
)
def test_a_replay_that_is_killed_and_repeated_replays_each_dead_letter_once(
    process: Run, failed: Path, point: str
) -> None:
    command = ("dlq", "replay", "dead", "--execute", "--yes")
    assert process(*command, env={"MILLSTREAM_FAILPOINT": point}).code == EXIT_STATUS
    assert process(*command).code == 0
    with open_log(failed) as log:
        assert log.ends(["payments"])["payments"] == [0, len(VALUES) + 3]


def test_a_fenced_replay_reports_the_error_in_a_line(
    millstream: Run, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millstream.log.embedded.parts import EmbeddedApplications

    publish = EmbeddedApplications.publish

    def late(applications: EmbeddedApplications, publication: Any) -> bool:
        applications.acquire(publication.scope)  # the other replay begins
        return publish(applications, publication)

    monkeypatch.setattr(EmbeddedApplications, "publish", late)
    result = millstream("dlq", "replay", "dead", "--execute", "--yes")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "error: another replay of topic 'dead' has taken over; this one had replayed 0 records",
        "hint: replayed records stay, and the other replay continues from there",
    ]


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "amount", "type": "long"}, {"name": "currency", "type": "string"}],
}


def orders(data: Path, *currencies: str) -> App:
    """Checks orders, whose schema is in the registry."""
    app = App("orders", config={"state.dir": str(data)})
    rules = contract(
        rule("positive", col("amount") > 0),
        rule("known currency", col("currency").is_in(*currencies)),
        name="orders",
        on_violation="quarantine",
    )
    app.stream("orders", value=avro(ORDER), contract=rules).to("checked")
    return app


def test_quarantined_records_are_shown_and_replayed_once_the_contract_accepts_them(millstream: Run, data: Path) -> None:
    given = [{"amount": 5, "currency": "EUR"}, {"amount": -5, "currency": "EUR"}, {"amount": 7, "currency": "CHF"}]
    with open_log(data) as log:
        log.create_topic("source")
        log.create_topic("orders")
        log.produce("source", [ProducerRecord(b"k", json.dumps(order).encode(), 1_000) for order in given])
    writer = App("writer", config={"state.dir": str(data)})
    writer.stream("source").to("orders", value=avro(ORDER))
    for app in (writer, orders(data, "EUR")):
        with InProcessRun(app) as local:
            local.run()

    listed = millstream("dlq", "list", "orders-quarantine", "-o", "json").lines
    assert [letter["contract"] for letter in listed] == [
        {"name": "orders", "rule": "positive", "reason": "violated", "schema_id": 1},
        {"name": "orders", "rule": "known currency", "reason": "violated", "schema_id": 1},
    ]
    shown = millstream("dlq", "show", "orders-quarantine", "0:1").out.splitlines()
    assert shown[2:9] == [
        "source     orders 0:2",
        "exception  millstream.errors.ContractViolationError",
        "message    contract 'orders', rule 'known currency': the condition is false",
        "contract   orders",
        "rule       known currency",
        "reason     violated",
        "schema     id 1",
    ]

    done = millstream("dlq", "replay", "orders-quarantine", "--rule", "known currency", "--execute", "--yes")
    assert done == (0, "1 dead letter of orders-quarantine was replayed to orders\n", "")
    with InProcessRun(orders(data, "EUR", "CHF")) as local:
        local.run()
        assert local.log.ends(["checked"])["checked"][0] == 2
        original = local.log.read("orders", 0, 2, 4)["value"].to_pylist()
        assert original[0] == original[1]
    left = millstream("dlq", "list", "orders-quarantine", "--contract", "orders", "--pending", "-o", "json").lines
    assert [letter["contract"]["rule"] for letter in left] == ["positive"]
    assert millstream("dlq", "list", "orders-quarantine", "--contract", "others", "-o", "json").lines == []
