"""Functions that raise, and the processing exception handler."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from millstream import App, TestDriver, col, tumbling
from millstream.errors import ProcessingError, RunError


def divide(value: int) -> int:
    return 10 // value


def dividing(**config: Any) -> App:
    app = App("errors", **config)
    numbers = app.stream("in", value=int)
    numbers.map_values(divide, name="divide").to("out")
    numbers.to("sibling")
    return app


def test_by_default_the_application_stops_with_the_record_and_a_remedy() -> None:
    with TestDriver(dividing()) as driver:
        driver.input("in").pipe("k", 5)
        with pytest.raises(ProcessingError) as caught:
            driver.input("in").pipe("k", 0)
    line = divide.__code__.co_firstlineno
    assert str(caught.value) == (
        f"processing failed in operator 'divide' (topic in, partition 0, offset 1, function "
        f"test_processing_errors.py:{line} in divide): ZeroDivisionError: integer division or modulo by zero\n"
        "  hint: to continue without such records, set processing.exception.handler to 'continue'"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_continue_drops_the_record_at_that_operator_only_and_counts_it() -> None:
    with TestDriver(dividing(processing_exception_handler="continue")) as driver:
        driver.input("in").pipe_pairs([("a", 5), ("b", 0), ("c", 2)])
        assert driver.output("out").read_pairs() == [("a", 2), ("c", 5)]
        assert driver.output("sibling").read_pairs() == [("a", 5), ("b", 0), ("c", 2)]
        assert driver.dropped == {("divide", "processing error"): 1}
        (dropped,) = driver.dropped_records
        assert (dropped.operator, dropped.reason, dropped.key, dropped.value) == ("divide", "processing error", "b", 0)


def test_of_several_records_from_one_record_only_the_failing_one_is_dropped() -> None:
    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=str).flat_map_values(lambda v: [int(n) for n in v.split()]).map_values(divide).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", "5 0 2")
        assert driver.output("out").read_values() == [2, 5]


def test_if_a_flat_map_function_fails_none_of_its_records_is_forwarded() -> None:
    def upto(value: int) -> Any:
        yield value
        raise ValueError("stop")

    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=int).flat_map_values(upto).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        assert driver.output("out").is_empty


def test_a_handler_function_decides_with_the_whole_error_context() -> None:
    calls: list[Any] = []

    def handler(context: Any, error: BaseException) -> str:
        calls.append((context, error))
        return "continue"

    with TestDriver(dividing(processing_exception_handler=handler)) as driver:
        driver.input("in").pipe("k", 0, timestamp=3, headers={"h": "1"})
    ((context, error),) = calls
    assert isinstance(error, ZeroDivisionError)
    assert (context.phase, context.operator, context.task_id) == ("processing", "divide", "0_0")
    assert (context.topic, context.partition, context.offset) == ("in", 0, 0)
    assert context.function.endswith("in divide")
    assert (context.key, context.value) == (b"k", (0).to_bytes(8, "big"))
    assert (context.timestamp, context.headers) == (3, (("h", b"1"),))


OPERATORS: dict[str, Any] = {
    "filter": lambda s, f: s.filter(f),
    "map": lambda s, f: s.map(lambda v: (f(v), 1)),
    "map, no pair": lambda s, f: s.map(f),
    "flat_map": lambda s, f: s.flat_map(lambda v: [(f(v), 1)]),
    "flat_map_values, no list": lambda s, f: s.flat_map_values(f),
    "select_key": lambda s, f: s.select_key(f),
    "peek": lambda s, f: s.peek(f),
    "foreach": lambda s, f: s.foreach(f),
    "split": lambda s, f: s.split({"a": f}),
    "to": lambda s, f: s.to(lambda v: f"topic{f(v)}"),
    "to, no name": lambda s, f: s.to(lambda v: f"/{f(v)}"),
    "aggregate": lambda s, f: s.group_by_key().aggregate(lambda: 0, lambda v, agg: agg + f(v)),
    "initializer": lambda s, f: s.group_by_key().aggregate(lambda: f(0), lambda v, agg: agg),
    "reduce": lambda s, f: s.group_by_key().reduce(lambda agg, v: f(v)),
    "windowed aggregate": lambda s, f: (
        s.group_by_key().windowed_by(tumbling(10)).aggregate(lambda: 0, lambda v, agg: agg + f(v))
    ),
    "table filter": lambda s, f: s.to_table().filter(f),
    "table map_values": lambda s, f: s.to_table().map_values(f),
    "table transform_values": lambda s, f: s.to_table().transform_values(f),
    "table group_by": lambda s, f: s.to_table().group_by(lambda v: (f(v), v)).count(),
    "expression": lambda s, f: s.map_values(col("no") + 1),
}


def build(operator: str, **config: Any) -> App:
    app = App("errors", **config)
    OPERATORS[operator](app.stream("in", value=int if operator != "expression" else object), divide)
    return app


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_error_in_any_operator_names_it_and_the_function(operator: str) -> None:
    with (
        TestDriver(build(operator)) as driver,
        pytest.raises(ProcessingError, match=r"failed in operator 'in-.*topic in, .*, function "),
    ):
        driver.input("in").pipe_pairs([("k", 0), ("k", 0)])


def leave(_value: int) -> int:
    sys.exit("enough")


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() - {"expression"}))
def test_sys_exit_is_an_error_of_the_function_that_calls_it(operator: str) -> None:
    app = App("errors")
    OPERATORS[operator](app.stream("in", value=int), leave)
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"failed in operator 'in-.*topic in, .*, function .*: SystemExit: enough"),
    ):
        driver.input("in").pipe_pairs([("k", 0), ("k", 0)])


def test_ctrl_c_during_a_function_in_the_driver_is_not_an_error_of_the_function() -> None:
    def interrupt(_value: int) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=int).map_values(interrupt).to("out")
    with TestDriver(app) as driver, pytest.raises(KeyboardInterrupt):
        driver.input("in").pipe("k", 0)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_error_in_any_operator_can_be_continued(operator: str) -> None:
    with TestDriver(build(operator, processing_exception_handler="continue")) as driver:
        driver.input("in").pipe("k", 0)
        driver.input("in").pipe("k", 0)
        assert {reason for _, reason in driver.dropped} == {"processing error"}


def test_a_continued_error_does_not_change_an_aggregate() -> None:
    app = App("errors", processing_exception_handler="continue")
    app.stream("in", value=int).group_by_key().aggregate(lambda: 0, lambda v, agg: agg + 10 // v, store="sum")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("k", 5), ("k", 0), ("k", 2)])
        assert driver.store("sum").get("k") == 7


def test_after_a_failure_the_driver_refuses_more_records() -> None:
    with TestDriver(dividing()) as driver:
        with pytest.raises(ProcessingError) as first:
            driver.input("in").pipe("k", 0)
        with pytest.raises(RunError, match="has stopped") as later:
            driver.input("in").pipe("k", 1)
        assert later.value.__cause__ is first.value


def test_after_a_failure_the_wall_clock_does_not_advance() -> None:
    with TestDriver(dividing()) as driver:
        with pytest.raises(ProcessingError):
            driver.input("in").pipe("k", 0)
        with pytest.raises(RunError, match="has stopped"):
            driver.advance_wall_clock("1s")


def test_records_written_before_the_failure_can_still_be_read() -> None:
    with TestDriver(dividing()) as driver:
        driver.input("in").pipe("a", 5)
        with pytest.raises(ProcessingError):
            driver.input("in").pipe("b", 0)
        assert driver.output("sibling").read_pairs() == [("a", 5)]
