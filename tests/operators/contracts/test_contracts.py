"""Contracts on read and on write: rules, reasons, and what happens to records that violate them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.operators.harness import refused, rows, send

from millstream import App, Processor, Record, TestDriver, avro, col, contract, header, mask, rule
from millstream.errors import ContractViolationError, RecordReadError, TopologyError
from millstream.log import DeadLetter

POSITIVE = col("amount") > 0
WRONG: Any = "quarantin"
FIVE: Any = 5
MISSPELT: dict[str, Any] = {"on_violations": "drop"}


def run(app: App, *records: tuple[Any, ...]) -> TestDriver:
    """Pipes (key, value) records, with headers as a third part."""
    return send(TestDriver(app), *((key, value, 0, *headers) for key, value, *headers in records))


def letters(driver: TestDriver, topic: str) -> list[DeadLetter]:
    found = driver.output(topic, key=bytes, value=bytes).read_all()
    return [DeadLetter(topic, 0, n, r.timestamp, r.key, r.value, r.headers) for n, r in enumerate(found)]


def facts(driver: TestDriver, topic: str) -> list[tuple[str, str, str]]:
    return [letter.contract[:3] for letter in letters(driver, topic) if letter.contract is not None]


# ----- what happens to a record --------------------------------------------------------------------------------------


def test_fail_stops_with_contract_rule_position_and_value() -> None:
    app = App("test")
    app.stream("in", contract=contract(POSITIVE, name="orders")).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("a", {"amount": 1})
        with pytest.raises(ContractViolationError) as raised:
            driver.input("in").pipe("b", {"amount": -1})
    assert raised.value.message == (
        "a record violates contract 'orders', rule 'amount > 0', in operator 'in-source' (topic in, partition 0, "
        "offset 1): the condition is false; the value is {'amount': -1}"
    )
    assert "quarantine" in (raised.value.hint or "")


def test_the_value_in_an_error_is_shortened_and_escaped() -> None:
    app = App("test")
    app.stream("in", contract=contract(POSITIVE)).to("out")
    with pytest.raises(ContractViolationError) as raised:
        run(app, ("a", {"amount": 0, "text": "\x1b" + "x" * 100_000}))
    assert len(raised.value.message) < 2_000
    assert "\x1b" not in raised.value.message


def test_drop_counts_by_contract_rule_and_reason() -> None:
    app = App("test")
    app.stream("in", contract=contract(POSITIVE, on_violation="drop")).to("out")
    driver = run(app, ("a", {"amount": 1}), ("b", {"amount": -1}), ("c", {}), ("d", {"amount": 2}))
    assert [key for key, *_ in rows(driver, "out")] == ["a", "d"]
    assert driver.dropped == {
        ("in-source", "dropped by contract in: amount > 0: violated"): 1,
        ("in-source", "dropped by contract in: amount > 0: null"): 1,
    }


def test_quarantine_has_the_original_bytes_and_headers() -> None:
    app = App("test")
    app.stream("in", contract=contract(POSITIVE, on_violation="quarantine")).to("out")
    with TestDriver(app) as driver:
        source = driver.input("in", key=bytes, value=bytes)
        source.pipe(b"k", b'{"amount":\t-1, "x": 1.50}', timestamp=7, headers=[("trace", b"1")])
        (letter,) = letters(driver, "in-quarantine")
        assert (letter.key, letter.value, letter.timestamp) == (b"k", b'{"amount":\t-1, "x": 1.50}', 7)
        assert letter.source == ("in", 0, 0)
        assert letter.contract == ("in", "amount > 0", "violated", None)
        assert letter.original_headers == (("trace", b"1"),)
        assert letter.exception == "millstream.errors.ContractViolationError"
        assert letter.message == "contract 'in', rule 'amount > 0': the condition is false"
        assert letter.stacktrace is None
        assert rows(driver, "out") == []
        assert driver.dropped == {("in-source", "quarantined by contract in: amount > 0: violated"): 1}


@pytest.mark.parametrize(
    ("options", "config", "topic"),
    [
        ({}, {}, "in-quarantine"),
        ({"name": "orders"}, {}, "orders-quarantine"),
        ({}, {"errors.dead.letter.queue.topic.name": "dead"}, "dead"),
        ({"quarantine": "bad"}, {"errors.dead.letter.queue.topic.name": "dead"}, "bad"),
    ],
)
def test_the_quarantine_topic(options: dict[str, Any], config: dict[str, Any], topic: str) -> None:
    app = App("test", config=config)
    app.stream("in", contract=contract(POSITIVE, on_violation="quarantine", **options)).to("out")
    assert len(letters(run(app, ("a", {"amount": -1})), topic)) == 1


def test_a_rule_may_have_a_policy_of_its_own() -> None:
    app = App("test")
    rules = contract(rule("positive", POSITIVE, on_violation="drop"), col("amount") < 100, on_violation="quarantine")
    app.stream("in", contract=rules).to("out")
    driver = run(app, ("a", {"amount": -1}), ("b", {"amount": 100}), ("c", {"amount": 3}))
    assert [letter.key for letter in letters(driver, "in-quarantine")] == [b"b"]
    assert [key for key, *_ in rows(driver, "out")] == ["c"]
    assert sum(driver.dropped.values()) == 2


# ----- conditions ----------------------------------------------------------------------------------------------------


def even(order: dict[str, int]) -> bool:
    return order["amount"] % 2 == 0


def test_expressions_and_functions_are_conditions() -> None:
    app = App("test")
    rules = contract(
        POSITIVE,
        even,
        rule("keyed", lambda key, _order: key != "x"),
        header("skip").is_null(),
        on_violation="quarantine",
    )
    app.stream("in", contract=rules).to("out")
    driver = run(
        app,
        ("a", {"amount": 2}),
        ("b", {"amount": 0}),
        ("c", {"amount": 3}),
        ("x", {"amount": 2}),
        ("d", {"amount": 2}, (("skip", b"1"),)),
        ("e", {"amount": "2"}),
    )
    assert [key for key, *_ in rows(driver, "out")] == ["a"]
    assert facts(driver, "in-quarantine") == [
        ("in", "amount > 0", "violated"),
        ("in", "even", "violated"),
        ("in", "keyed", "violated"),
        ("in", "header(headers, 'skip') IS NULL", "violated"),
        ("in", "amount > 0", "error"),
    ]


def test_a_condition_that_raises_has_the_error_and_its_trace() -> None:
    app = App("test")
    app.stream("in", contract=contract(even, on_violation="quarantine")).to("out")
    (letter,) = letters(run(app, ("a", {})), "in-quarantine")
    assert letter.contract == ("in", "even", "error", None)
    assert letter.message == "contract 'in', rule 'even': the condition raised KeyError: 'amount'"
    assert letter.stacktrace is not None
    assert "in even" in letter.stacktrace


def test_a_condition_that_is_null_is_a_violation() -> None:
    app = App("test")
    app.stream("in", contract=contract(lambda _order: None, on_violation="quarantine")).to("out")
    ((_, name, reason),) = facts(run(app, ("a", {})), "in-quarantine")
    assert name.endswith("in <lambda>")
    assert reason == "null"


def test_a_record_with_a_null_value_passes_unless_it_is_forbidden() -> None:
    app = App("test")
    app.stream("in", contract=contract(POSITIVE)).to("out")
    app.stream("in2", contract=contract(POSITIVE, allow_null=False, on_violation="drop")).to("out2")
    with TestDriver(app) as driver:
        driver.input("in").pipe("a", None)
        driver.input("in2").pipe("a", None)
        assert rows(driver, "out") == [("a", None, 0)]
        assert rows(driver, "out2") == []
        assert driver.dropped == {("in2-source", "dropped by contract in2: no null values: null"): 1}


# ----- schemas -------------------------------------------------------------------------------------------------------


@dataclass
class Order:
    amount: int


@pytest.mark.parametrize("on_violation", ["drop", "quarantine"])
def test_a_record_that_cannot_be_read_violates_the_contract(on_violation: Any) -> None:
    app = App("test")
    app.stream("in", value=Order, contract=contract(POSITIVE, on_violation=on_violation)).to("out")
    with TestDriver(app) as driver:
        driver.input("in", value=bytes).pipe("a", b'{"amount": "x"}')
        driver.input("in", value=bytes).pipe("b", b'{"amount": 1}')
        assert rows(driver, "out") == [("b", Order(1), 0)]
        ((_operator, reason),) = driver.dropped
        assert reason.endswith("by contract in: schema: schema")
        if on_violation == "quarantine":
            (letter,) = letters(driver, "in-quarantine")
            assert (letter.value, letter.source) == (b'{"amount": "x"}', ("in", 0, 0))


def test_under_a_contract_that_fails_the_error_handler_decides_on_unreadable_records() -> None:
    app = App("test")
    app.stream("in", value=Order, contract=contract(POSITIVE)).to("out")
    with TestDriver(app) as driver, pytest.raises(RecordReadError):
        driver.input("in", value=bytes).pipe("a", b"{")
    with TestDriver(app, config={"deserialization.exception.handler": "continue"}) as driver:
        driver.input("in", value=bytes).pipe("a", b"{")
        assert driver.dropped == {("in-source", "deserialization error"): 1}


def test_a_contract_without_rules_quarantines_what_cannot_be_read() -> None:
    app = App("test")
    app.stream("in", value=int, contract=contract(on_violation="quarantine")).to("out")
    with TestDriver(app) as driver:
        driver.input("in", value=bytes).pipe("a", b"three")
        assert facts(driver, "in-quarantine") == [("in", "schema", "schema")]


def test_a_quarantined_record_has_the_id_of_its_schema() -> None:
    app = App("test")
    app.stream("in", value=avro(Order), contract=contract(POSITIVE, on_violation="quarantine")).to("out")
    with TestDriver(app) as driver:
        driver.input("in", value=avro({"type": "record", "name": "Other", "fields": []})).pipe("a", {})
        driver.input("in").pipe("b", Order(-1))
        driver.input("in", value=bytes).pipe("c", b"no schema id")
        other, own = (driver.registry.versions("in-value")[index] for index in (0, 1))
        ids = [driver.registry.version("in-value", version).id for version in (other, own)]
        found = [letter.contract for letter in letters(driver, "in-quarantine")]
    assert [None if c is None else (c.reason, c.schema_id) for c in found] == [
        ("schema", ids[0]),
        ("violated", ids[1]),
        ("schema", None),
    ]


# ----- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_violations_do_not_change_a_table_and_deletes_pass(optimization: str) -> None:
    app = App("test", topology_optimization=optimization)
    app.table("in", contract=contract(POSITIVE, on_violation="quarantine"), store="rows")
    with TestDriver(app) as driver:
        for value in ({"amount": 1}, {"amount": -1}):
            driver.input("in").pipe("a", value)
        driver.input("in").pipe("b", {"amount": 2})
        driver.input("in").pipe("b", None)
        driver.restart()
        assert driver.store("rows").get("a") == {"amount": 1}
        assert driver.store("rows").get("b") is None
        assert len(letters(driver, "in-quarantine")) == 1


def test_a_global_table_reports_a_violation_once() -> None:
    app = App("test")
    names = app.global_table("names", value=Order, contract=contract(POSITIVE, on_violation="quarantine"))
    app.stream("in", value=int).join(names, lambda n, row: n + row.amount, on=lambda key, _n: key).to("out", value=int)
    with TestDriver(app, partitions=3) as driver:
        driver.input("names").pipe("a", Order(5))
        driver.input("names").pipe("a", Order(-5))
        driver.input("names", value=bytes).pipe("c", b"{")
        driver.input("in").pipe("a", 1)
        assert rows(driver, "out") == [("a", 6, 0)]
        found = letters(driver, "names-quarantine")
        assert [letter.contract and letter.contract[:3] for letter in found] == [
            ("names", "amount > 0", "violated"),
            ("names", "schema", "schema"),
        ]
        assert [letter.source and letter.source.offset for letter in found] == [1, 2]
        assert sum(driver.dropped.values()) == 2


# ----- writes --------------------------------------------------------------------------------------------------------


def test_a_violation_on_write_carries_the_source_record() -> None:
    app = App("test")
    orders = app.stream("in", value=int).map_values(lambda n: {"amount": n - 10})
    orders.to("out", contract=contract(POSITIVE, on_violation="quarantine"))
    driver = run(app, ("a", 11), ("b", 9))
    assert rows(driver, "out") == [("a", {"amount": 1}, 0)]
    (letter,) = letters(driver, "out-quarantine")
    assert (letter.key, letter.value, letter.source) == (b"b", (9).to_bytes(8, "big"), ("in", 0, 1))
    assert letter.contract == ("out", "amount > 0", "violated", None)


def test_a_violation_behind_a_repartition_carries_the_record_of_its_topic() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by(lambda word: word).count(store="counts").to_stream()
    counts.to("out", contract=contract(lambda count: count < 2, on_violation="quarantine"))
    driver = run(app, ("a", "x"), ("b", "x"))
    (letter,) = letters(driver, "out-quarantine")
    assert letter.source is not None
    assert letter.source.topic == "test-counts-repartition"
    assert (letter.key, letter.value) == (b"x", b"x")


def test_a_value_that_cannot_be_written_violates_the_contract() -> None:
    app = App("test")
    app.stream("in").to("out", value=int, contract=contract(on_violation="quarantine"))
    driver = run(app, ("a", 1), ("b", "x"))
    assert rows(driver, "out") == [("a", 1, 0)]
    (letter,) = letters(driver, "out-quarantine")
    assert letter.contract is not None
    assert letter.contract[1:3] == ("schema", "schema")
    assert (letter.key, letter.value) == (b"b", b'"x"')


def test_topics_that_a_function_chooses() -> None:
    app = App("test")
    rules = contract(POSITIVE, name="orders", on_violation="quarantine")
    app.stream("in").to(lambda order: f"out-{order['to']}", contract=rules)
    driver = run(app, ("a", {"to": "x", "amount": 1}), ("b", {"amount": 0}))
    assert [key for key, *_ in rows(driver, "out-x")] == ["a"]
    assert facts(driver, "orders-quarantine") == [("orders", "amount > 0", "violated")]


class Ticking(Processor[str, Any, str, Any]):
    def init(self) -> None:
        self.context.schedule("1s", "wall", lambda _time: self.context.forward(Record("tick", {"amount": -1}, 5)))

    def process(self, record: Record[str, Any]) -> None:
        pass


def test_a_record_without_a_source_is_in_quarantine_itself_and_cannot_be_replayed() -> None:
    app = App("test")
    app.stream("in").process(Ticking).to("out", contract=contract(POSITIVE, on_violation="quarantine"))
    with TestDriver(app) as driver:
        driver.advance_wall_clock("1s")
        (letter,) = letters(driver, "out-quarantine")
    assert (letter.key, letter.value, letter.source, letter.pending) == (b"tick", b'{"amount":-1}', None, False)


# ----- topologies ----------------------------------------------------------------------------------------------------


def test_a_changed_contract_goes_on_with_the_state() -> None:
    from millstream.plan.compare import compare

    def counts(rules: Any) -> App:
        app = App("test")
        app.stream("in", contract=rules).group_by_key().count(store="counts").to_stream().to("out")
        return app

    plain, first, other = counts(None), counts(contract(POSITIVE)), counts(contract(col("amount") > 5))
    assert plain.fingerprint() == first.fingerprint() == other.fingerprint()
    for before, after in ((plain, first), (first, other), (other, plain)):
        comparison = compare(before.plan(), after.plan())
        assert comparison.names("kept") == ["counts"]
        assert comparison.compatible
        changed = [(c.name, c.reasons) for c in comparison.operators if c.status != "kept"]
        assert changed == [("in-source", ("contract",))]


def test_a_topic_may_be_read_twice_under_one_contract() -> None:
    app, rules = App("test"), contract(POSITIVE)
    app.stream("in", contract=rules).to("a")
    app.stream("in", contract=rules).to("b")
    assert refused(lambda: app.stream("in").to("c")).message.startswith("topic 'in' is already read")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: contract(allow_null=True), "it has no rules"),
        (lambda: contract(POSITIVE, POSITIVE), "two rules are named 'amount > 0'"),
        (lambda: contract(POSITIVE, on_violation=WRONG), "unknown on_violation 'quarantin'"),
        (lambda: contract(rule("x", POSITIVE, on_violation=WRONG)), "rule 'x': unknown on_violation 'quarantin'"),
        (lambda: contract(rule("", POSITIVE)), "'' is not a name"),
        (lambda: contract(FIVE), "expected a function or an expression"),
        (lambda: contract(POSITIVE, name="a b"), "contract name 'a b' is not allowed"),
        (lambda: contract(POSITIVE, tags={"": "pii"}), "is not a field with its tags"),
        (lambda: contract(POSITIVE, **MISSPELT), "unknown option 'on_violations'"),
    ],
)
def test_mistakes_in_a_contract_are_refused(make: Any, message: str) -> None:
    assert message in refused(make).message


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (contract(col("amonut") > 0), "amonut"),
        (contract(col("amount")), "`amount` is BIGINT, not a condition"),
        (contract(lambda a, b, c: True), "takes 3 arguments"),
        (contract(POSITIVE, quarantine="in", on_violation="quarantine"), "'in' cannot be its own quarantine"),
        (contract(mask("pii", with_="x")), "masks are for records that are written"),
        (POSITIVE, "expected a contract"),
    ],
)
def test_mistakes_in_the_use_of_a_contract_are_refused(rules: Any, message: str) -> None:
    app = App("test")
    with pytest.raises(TopologyError) as raised:
        app.stream("in", value=Order, contract=rules)
    assert message in raised.value.message
