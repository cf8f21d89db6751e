"""An application with contracts on a stream, a global table and a sink, which crashes at failpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fault.real_time import slow_workers

from millstream import App, col, contract, hmac, mask, rule
from millstream.core.failpoints import arm
from millstream.log import DeadLetters, ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

ORDERS = 600
AT_ONCE = 20
KEY = "0123456789abcdef0123456789abcdef"


def fill(directory: Path) -> None:
    """Writes orders, of which every seventh violates the contract, and every eleventh that of the output."""
    with open_log(directory) as log:
        log.create_topic("orders", 2)
        log.create_topic("rates", 1)
        rates = [
            ProducerRecord(b"EUR", b'{"rate": 2}'),
            ProducerRecord(b"EUR", b'{"rate": -2}'),
            ProducerRecord(b"x", b"{"),
        ]
        log.produce("rates", rates)
        for start in range(0, ORDERS, AT_ONCE):
            log.produce("orders", [_order(number) for number in range(start, start + AT_ONCE)])


def _order(number: int) -> ProducerRecord:
    value = {"n": number, "amount": -1 if number % 7 == 0 else number, "mail": f"{number}@example.com"}
    return ProducerRecord(b"c%d" % (number % 5), json.dumps(value).encode(), number)


def build(directory: Path, **config: Any) -> App:
    app = App("contracts", config={"state.dir": str(directory), "status": "none", "mask.key.k": KEY, **config})
    rates = app.global_table("rates", contract=contract(col("rate") > 0, on_violation="quarantine"))
    orders = app.stream("orders", contract=contract(col("amount") > 0, on_violation="quarantine"))
    priced = orders.join(
        rates, lambda order, rate: {**order, "total": order["amount"] * rate["rate"]}, on=lambda _o: "EUR"
    )
    rules = contract(
        rule("not eleven", lambda order: order["n"] % 11 != 0, on_violation="quarantine"),
        mask("pii", with_=hmac("k")),
        tags={"mail": "pii"},
    )
    priced.to("priced", contract=rules)
    orders.group_by_key().count(store="counts")
    return app


def run_workers(directory: Path, point: str | None) -> None:
    """Runs the application in workers, to its end or to a crash: the target of a child process."""
    arm(point)
    config = {"execution.mode": "local", "num.workers": 2, "commit.interval.ms": 5}
    with slow_workers(0.0):
        build(directory, **config).run(until_caught_up=True)


def run_batches(directory: Path, point: str | None) -> None:
    """Runs the application in batches of 50 records, to its end or to a crash."""
    arm(point)
    with InProcessRun(build(directory), records=50) as run:
        run.run()


def check(directory: Path) -> None:
    """Checks that each bad record is in quarantine once, as it was, and that all others were processed once."""
    bad = [number for number in range(ORDERS) if number % 7 == 0]
    eleven = [number for number in range(ORDERS) if number % 7 and number % 11 == 0]
    good = [number for number in range(ORDERS) if number % 7 and number % 11]
    with open_log(directory) as log:
        for topic, numbers in (("orders-quarantine", bad), ("priced-quarantine", eleven)):
            letters = list(DeadLetters(log, topic).read())
            assert sorted(json.loads(letter.value or b"")["n"] for letter in letters) == numbers
            for letter in letters:
                expected = _order(json.loads(letter.value or b"")["n"])
                assert (letter.key, letter.value, letter.timestamp) == (
                    expected.key,
                    expected.value,
                    expected.timestamp,
                )
                assert letter.source is not None
        rates = sorted(letter.value or b"" for letter in DeadLetters(log, "rates-quarantine").read())
        assert rates == [b"{", b'{"rate": -2}'], rates
        ends = log.ends(["priced"])["priced"]
        rows = [row for part, end in enumerate(ends) for row in log.read("priced", part, 0, end).to_pylist()]
        values = [json.loads(row["value"]) for row in rows]
        assert sorted(value["n"] for value in values) == good
        assert all(value["total"] == 2 * value["n"] and "@" not in value["mail"] for value in values)
