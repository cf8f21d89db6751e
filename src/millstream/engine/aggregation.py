"""Compiles an aggregation of a plan to the functions that operators call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.plan.aggregates import Aggregation, BoundAggregate
from millstream.plan.functions import Function


class Steps(NamedTuple):
    """The functions of an aggregation.

    Attributes:
        initial: Returns the aggregate of a group without values.
        begin: Returns the aggregate of a first value, of (key, value).
        add: Returns the aggregate with a value added, of (key, value, aggregate).
        subtract: Returns the aggregate with a value removed, of (key, value, aggregate).
        merge: Returns the aggregate of two sessions that became one, of (key, left, right).
    """

    initial: Callable[[], Any]
    begin: Callable[[Any, Any], Any]
    add: Callable[[Any, Any, Any], Any]
    subtract: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]


def compile_aggregation(aggregation: Aggregation) -> Steps:
    """Returns the functions of an aggregation. Those that its operator never calls raise if they are called."""
    if aggregation.kind == "count":
        return _counting()
    if aggregation.kind == "reduce":
        return _reducing(aggregation)
    if aggregation.kind == "functions":
        return _of_functions(aggregation)
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


def _counting() -> Steps:
    return Steps(
        lambda: 0,
        lambda _key, _value: 1,
        lambda _key, _value, count: count + 1,
        lambda _key, _value, count: count - 1,
        lambda _key, left, right: left + right,
    )


def _reducing(aggregation: Aggregation) -> Steps:
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


def _of_functions(aggregation: Aggregation) -> Steps:
    """One aggregate function gives its state; several give a dict of their states, by field."""
    steps = [_of_function(call) for call in aggregation.functions]
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


def _of_function(call: BoundAggregate) -> Steps:
    accumulator = call.accumulator()
    initial, accumulate, merge = accumulator.initial, accumulator.add, accumulator.merge
    undo = accumulator.undo or _missing
    pick = _picker(call)

    def add(key: Any, value: Any, agg: Any) -> Any:
        picked = pick(key, value)
        return agg if picked is None else accumulate(agg, picked)

    def subtract(key: Any, value: Any, agg: Any) -> Any:
        picked = pick(key, value)
        return agg if picked is None else undo(agg, picked)

    return Steps(
        initial,
        lambda key, value: add(key, value, initial()),
        add,
        subtract,
        lambda _key, left, right: merge(left, right),
    )


def _picker(call: BoundAggregate) -> Callable[[Any, Any], Any]:
    """Returns the function that picks the aggregated value; what is null is not aggregated."""
    if call.of is not None:
        return call.of.full()
    if call.function == "count":  # it counts records, whatever their values are
        return lambda _key, _value: True
    return lambda _key, value: value
