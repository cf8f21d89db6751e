"""Compiles the aggregation of a plan to the functions that operators call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.plan.aggregates import Aggregation, BoundAggregate
from millstream.plan.functions import Function


class Steps(NamedTuple):
    """The functions of an aggregation.

    Attributes:
        initial: () -> the aggregate of a group without values.
        begin: (key, value) -> the aggregate of a first value.
        add: (key, value, aggregate) -> the aggregate with the value added.
        subtract: (key, value, aggregate) -> the aggregate with the value removed.
        merge: (key, left, right) -> the aggregate of two sessions that are merged.
    """

    initial: Callable[[], Any]
    begin: Callable[[Any, Any], Any]
    add: Callable[[Any, Any, Any], Any]
    subtract: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]


def compile_aggregation(aggregation: Aggregation) -> Steps:
    """Returns the functions of an aggregation. Functions that the plan does not have raise AssertionError."""
    if aggregation.kind == "count":
        return _count_steps()
    if aggregation.kind == "reduce":
        return _reduce_steps(aggregation)
    if aggregation.kind == "functions":
        return _steps_of_functions(aggregation)
    assert aggregation.init is not None
    assert aggregation.add is not None
    initial, add = aggregation.init.bare(), aggregation.add.full()
    return Steps(
        initial,
        lambda key, value: add(key, value, initial()),
        add,
        _full(aggregation.subtract),
        _full(aggregation.merge),
    )


def _full(function: Function | None) -> Callable[..., Any]:
    return _missing if function is None else function.full()


def _missing(*_arguments: Any) -> Any:
    raise AssertionError("the plan has no function for this step of the aggregation")


def _count_steps() -> Steps:
    return Steps(
        lambda: 0,
        lambda _key, _value: 1,
        lambda _key, _value, count: count + 1,
        lambda _key, _value, count: count - 1,
        lambda _key, left, right: left + right,
    )


def _reduce_steps(aggregation: Aggregation) -> Steps:
    assert aggregation.add is not None
    reduce = aggregation.add.bare()
    subtract = _missing if aggregation.subtract is None else aggregation.subtract.bare()
    return Steps(
        lambda: None,
        lambda _key, value: value,
        lambda _key, value, agg: value if agg is None else reduce(agg, value),
        lambda _key, value, agg: subtract(agg, value),
        lambda _key, left, right: right if left is None else reduce(left, right),
    )


def _steps_of_functions(aggregation: Aggregation) -> Steps:
    """The aggregate is the state of a single aggregate function, or a dict of the states of several, by field."""
    steps = [_steps_of_function(call) for call in aggregation.functions]
    if not aggregation.fields:
        return steps[0]
    named = tuple(zip(aggregation.fields, steps, strict=True))

    def initial() -> dict[str, Any]:
        return {field: step.initial() for field, step in named}

    def add(key: Any, value: Any, agg: dict[str, Any]) -> dict[str, Any]:
        return {field: step.add(key, value, agg[field]) for field, step in named}

    return Steps(
        initial,
        lambda key, value: add(key, value, initial()),
        add,
        lambda key, value, agg: {field: step.subtract(key, value, agg[field]) for field, step in named},
        lambda key, left, right: {field: step.merge(key, left[field], right[field]) for field, step in named},
    )


def _steps_of_function(call: BoundAggregate) -> Steps:
    accumulator = call.accumulator()
    initial, accumulate, merge = accumulator.initial, accumulator.add, accumulator.merge
    undo = accumulator.undo or _missing
    extract = _extractor(call)

    def add(key: Any, value: Any, agg: Any) -> Any:
        item = extract(key, value)
        return agg if item is None else accumulate(agg, item)

    def subtract(key: Any, value: Any, agg: Any) -> Any:
        item = extract(key, value)
        return agg if item is None else undo(agg, item)

    return Steps(
        initial,
        lambda key, value: add(key, value, initial()),
        add,
        subtract,
        lambda _key, left, right: merge(left, right),
    )


def _extractor(call: BoundAggregate) -> Callable[[Any, Any], Any]:
    """Returns the function that extracts the value to aggregate; null is not aggregated."""
    if call.of is not None:
        return call.of.full()
    if call.function == "count":  # counts records of any value
        return lambda _key, _value: True
    return lambda _key, value: value
