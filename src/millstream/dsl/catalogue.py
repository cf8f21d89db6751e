"""Adds aggregate functions of the catalogue (`millstream.expr.aggregates`) to the topology: one, or several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millstream.dsl.internals import declared_serde
from millstream.errors import TopologyError, suggestion
from millstream.expr import ANY, DataType, StructType, schema_of
from millstream.expr.aggregates import AggregateCall, lookup_aggregate
from millstream.plan.aggregates import Aggregation, BoundAggregate
from millstream.plan.edges import with_type
from millstream.serde import JSON, Serde, serde_for

if TYPE_CHECKING:
    from millstream.dsl.grouping import Grouping


class Finish:
    """Computes the results of aggregate functions from their states.

    Args:
        functions: The aggregate functions.
        fields: The names of their results; empty for a single function, whose result is the value itself.
        into: The type that a record of several results is converted to; None leaves a dict.
    """

    def __init__(self, functions: tuple[BoundAggregate, ...], fields: tuple[str, ...], into: Any = None) -> None:
        self._arguments = functions, fields, into
        finishers = [function.accumulator().finish for function in functions]
        self._single = None if fields else finishers[0]
        self._finishers = tuple((field, f) for field, f in zip(fields, finishers, strict=False) if f is not None)
        self._into = into

    def __call__(self, state: Any) -> Any:
        """Returns the result."""
        if self._single is not None:
            return self._single(state)
        if self._finishers:
            state = {**state, **{field: finish(state[field]) for field, finish in self._finishers}}
        if self._into is None:
            return state
        import msgspec  # noqa: PLC0415  (takes 50 ms)

        return msgspec.convert(state, self._into)

    def __reduce__(self) -> tuple[Any, ...]:
        return Finish, self._arguments

    @property
    def needed(self) -> bool:
        """Whether a result differs from its state."""
        return self._single is not None or bool(self._finishers) or self._into is not None


def add_call(grouping: Grouping[Any], call: AggregateCall, value: Any, store: Any, name: str | None) -> Any:
    """Adds one aggregate function, whose result is the value of the table."""
    function = _bind(grouping, call)
    aggregation = Aggregation("functions", functions=(function,))
    finish = Finish((function,), ())
    state = _state_serde(grouping, function, value)
    table = grouping.add(call.function.replace("_", "-"), aggregation, state, store, name)
    if not finish.needed:
        return table
    return table.map_values(finish, value=serde_for(lookup_aggregate(call.function).result, "value"))


def add_calls(grouping: Grouping[Any], calls: Mapping[str, Any], value: Any, store: Any, name: str | None) -> Any:
    """Adds several aggregate functions; the value of the table is a record of their results."""
    fields = tuple(calls)
    functions = tuple(_bind(grouping, call) for call in calls.values())
    aggregation = Aggregation("functions", functions=functions, fields=fields)
    serde = declared_serde(value, "value")
    finish = Finish(functions, fields, None if serde is None or serde.python_type is object else serde.python_type)
    results = with_type(JSON, StructType(tuple(zip(fields, map(_result_type, functions), strict=True))))
    if not finish.needed:
        return grouping.add("aggregate", aggregation, results, store, name)
    return grouping.add("aggregate", aggregation, JSON, store, name).map_values(finish, value=serde or results)


def _result_type(function: BoundAggregate) -> DataType:
    result = lookup_aggregate(function.function).result
    return ANY if result is None else schema_of(result)


def _bind(grouping: Grouping[Any], call: AggregateCall) -> BoundAggregate:
    options = tuple(
        (name, grouping.function(option, f"{call.function}: {name}", ("value",)) if callable(option) else option)
        for name, option in call.options
    )
    of = None if call.of is None else grouping.function(call.of, "of")
    bound = BoundAggregate(call.function, of, options)
    if grouping.subtracts and bound.accumulator().undo is None:
        raise TopologyError(
            f"{call}: a row of a table may change, and {call.function} cannot subtract an old value",
            hint="use count, sum_, avg or collect; or aggregate(initializer, adder, subtractor)",
        )
    return bound


def _state_serde(grouping: Grouping[Any], function: BoundAggregate, declared: Any) -> Serde[Any]:
    """The serde of the state of one function: that of the aggregated values, if the state has their type."""
    if declared is not None:
        return serde_for(declared, "value")
    if lookup_aggregate(function.function).result is not None:
        return JSON
    if function.of is None:
        return (None if grouping.subtracts else grouping.output.value) or JSON
    serde = grouping.output.result_serde(None, function.of, "value")
    return JSON if serde is None else serde


def check_calls(first: Any, others: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, AggregateCall] | None:
    """Returns the calls among the arguments of ``aggregate``, by field; None if it was called with functions.

    Args:
        first: The first argument of ``aggregate``: an initializer, or a mapping of calls.
        others: Its other keyword arguments, the calls.
        known: The keyword arguments that are options.
    """
    if first is not None and not isinstance(first, Mapping):
        if others:
            name = next(iter(others))
            raise TopologyError(
                f"aggregate: unknown option {name!r}",
                hint=suggestion(name, known) or f"it takes: {', '.join(sorted(known))}",
            )
        return None
    calls = {**(first or {}), **others}
    for name, call in calls.items():
        if not isinstance(call, AggregateCall):
            raise TopologyError(
                f"aggregate: {name}={call!r} is neither an option nor an aggregate function",
                hint=suggestion(name, known) or "write n=count(), total=sum_(col('amount')), …",
            )
    if not calls:
        raise TopologyError(
            "aggregate: nothing to aggregate",
            hint="pass an initializer and an aggregator, or aggregate functions: n=count(), total=sum_(col('amount'))",
        )
    return calls
