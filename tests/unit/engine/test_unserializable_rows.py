"""A value that a store cannot serialize goes to the exception handler, like any other failure of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, Stream, TestDriver, session, sliding, tumbling
from millstream.errors import ProcessingError

Make = Callable[[Stream[Any, Any]], Any]

WITH_STORES: dict[str, Make] = {
    "aggregate": lambda s: s.group_by_key().aggregate(dict, lambda v, agg: v),
    "tumbling": lambda s: s.group_by_key().windowed_by(tumbling(10)).aggregate(dict, lambda v, agg: v),
    "sliding": lambda s: s.group_by_key().windowed_by(sliding(10)).aggregate(dict, lambda v, agg: v),
    "session": lambda s: s.group_by_key().windowed_by(session(10)).aggregate(dict, lambda v, a: v, lambda a, b: a),
    "collect": lambda s: s.group_by_key().collect(),
    "to_table": lambda s: s.to_table(store="rows"),
}


def opaque(value: int) -> Any:
    return object() if value < 0 else value


@pytest.mark.parametrize("operator", WITH_STORES)
def test_the_error_names_the_operator_and_the_record(operator: str) -> None:
    app = App("test")
    WITH_STORES[operator](app.stream("in", key=str, value=int).map_values(opaque))
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        with pytest.raises(ProcessingError, match=r"operator 'in-.*topic in, partition 0, offset 1.*json serde"):
            driver.input("in").pipe("k", -1)


@pytest.mark.parametrize("operator", WITH_STORES)
def test_the_application_can_continue_without_the_record(operator: str) -> None:
    app = App("test", processing_exception_handler="continue", errors_dead_letter_queue_topic_name="dead")
    WITH_STORES[operator](app.stream("in", key=str, value=int).map_values(opaque)).to_stream().to("out")
    with TestDriver(app) as driver:
        for number in (1, -1, 2):
            driver.input("in").pipe("k", number)
        assert sum(driver.dropped.values()) == 1
        assert len(driver.output("dead")) == 1
        assert driver.output("out").read_all()[-1].value is not None


OF_NUMBERS: dict[str, Make] = {
    "aggregate": lambda s: s.group_by_key().aggregate(lambda: 0, lambda v, agg: v, value=int),
    "tumbling": lambda s: s.group_by_key().windowed_by(tumbling(10)).aggregate(lambda: 0, lambda v, agg: v, value=int),
    "sliding": lambda s: s.group_by_key().windowed_by(sliding(10)).aggregate(lambda: 0, lambda v, agg: v, value=int),
    "session": lambda s: (
        s.group_by_key().windowed_by(session(10)).aggregate(lambda: 0, lambda v, a: v, lambda a, b: b, value=int)
    ),
    "to_table": lambda s: s.to_table(store="rows", value=int),
    "table map_values": lambda s: s.to_table().map_values(lambda v: v, value=int, store="rows"),
    "table aggregate": lambda s: (
        s.to_table()
        .group_by(lambda k, v: (k, v), key=str)
        .aggregate(lambda: 0, lambda v, agg: v, lambda v, agg: agg, value=int)
    ),
}


@pytest.mark.parametrize("operator", OF_NUMBERS)
def test_a_wrong_type_fails_at_its_record_even_if_the_store_keeps_objects(operator: str) -> None:
    app = App("test", processing_exception_handler="continue")
    OF_NUMBERS[operator](app.stream("in", key=str)).to_stream().to("out")
    with TestDriver(app) as driver:
        for value in (1, "text", 2):
            driver.input("in").pipe("k", value)
        assert list(driver.dropped.values()) == [1]
        assert driver.output("out").read_all()[-1].value == 2


class Ambiguous:
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


PREDICATES: dict[str, Make] = {
    "filter": lambda s: s.filter(lambda v: Ambiguous()),
    "filter with key": lambda s: s.filter(lambda k, v: Ambiguous()),
    "filter_not": lambda s: s.filter_not(lambda v: Ambiguous()),
    "split": lambda s: s.split({"one": lambda v: Ambiguous()}),
    "table filter": lambda s: s.to_table().filter(lambda v: Ambiguous()),
}


@pytest.mark.parametrize("operator", PREDICATES)
def test_a_predicate_result_without_a_truth_value_is_a_failure_of_the_function(operator: str) -> None:
    app = App("test")
    PREDICATES[operator](app.stream("in", key=str, value=int))
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"operator 'in-.*ValueError: ambiguous"):
        driver.input("in").pipe("k", 1)


@pytest.mark.parametrize("make", [lambda s: s.map(lambda v: 5), lambda s: s.flat_map(lambda v: [5])])
def test_a_result_that_is_not_a_pair_is_named_in_the_error(make: Make) -> None:
    app = App("test")
    make(app.stream("in", key=str, value=int))
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"returned 5 \(int\)\n  hint: it must return a p"),
    ):
        driver.input("in").pipe("k", 1)


def test_a_chain_too_long_for_the_stack_has_an_error_of_its_own() -> None:
    app = App("test")
    stream: Any = app.stream("in", key=str, value=int)
    for _ in range(2_000):
        stream = stream.map_values(lambda v: v, value=int)
    stream.to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="too long for Python's stack"):
        driver.input("in").pipe("k", 1)
