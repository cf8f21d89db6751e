"""The catalog of aggregate functions: the state of each, and how values are added, removed and merged.

An aggregate call is data: the name of a function of the catalog, the expression or function that extracts the value
from a record, and options. Plans contain such calls, so that comparing plans detects a changed aggregate.

>>> from millstream.expr import col
>>> print(sum_(col("amount")), top_k(3, col("score")), count())
sum(amount) top_k(score, k=3) count()
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.core.frozen import Frozen
from millstream.errors import TopologyError, suggestion
from millstream.expr.tree import Expr

Selector = Callable[..., Any]


class Accumulator(NamedTuple):
    """The computation of an aggregate. Its state is plain data with a JSON form.

    Attributes:
        initial: Returns the state of an empty group.
        add: Returns the state with a value added.
        merge: Returns the state of two groups together, the earlier one first.
        undo: Returns the state with a value removed; None if the state does not allow it.
        finish: Returns the result from the state; None if the state is the result.
    """

    initial: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    undo: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None


class AggregateFunction(Frozen):
    """A row of the catalog.

    Attributes:
        name: The name in calls.
        make: Returns the accumulator; its keyword arguments are the options of a call.
        doc: Describes the result in a sentence.
        result: The Python type of the result; None if it is that of the values.
    """

    name: str
    make: Callable[..., Accumulator]
    doc: str
    result: Any = None


class AggregateCall(Frozen):
    """A call of an aggregate function, as `sum_`, `count` and the others create it.

    Attributes:
        function: The name of the function in the catalog.
        of: Extracts the value to aggregate: an expression, or a function of the value or of key and value. None: the
            value itself.
        options: The options, by name.
    """

    function: str
    of: Expr | Selector | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        lookup_aggregate(self.function)

    def __str__(self) -> str:
        of = () if self.of is None else (str(self.of) if isinstance(self.of, Expr) else "<function>",)
        return f"{self.function}({', '.join((*of, *(f'{name}={value}' for name, value in self.options)))})"

    def __repr__(self) -> str:
        return f"<aggregate {self}>"


def lookup_aggregate(name: str) -> AggregateFunction:
    """Returns the aggregate function of that name.

    >>> lookup_aggregate("mx")
    Traceback (most recent call last):
    millstream.errors.TopologyError: ...: there is no aggregate function 'mx'
      hint: did you mean 'max'?
    """
    function = AGGREGATES.get(name)
    if function is None:
        raise TopologyError(f"there is no aggregate function {name!r}", hint=suggestion(name, AGGREGATES))
    return function


# ----- calls ---------------------------------------------------------------------------------------------------------


def count(of: Expr | Selector | None = None) -> AggregateCall:
    """The number of records; with ``of``, of the records for which it is not null."""
    return AggregateCall("count", of)


def sum_(of: Expr | Selector | None = None) -> AggregateCall:
    """The sum."""
    return AggregateCall("sum", of)


def min_(of: Expr | Selector | None = None) -> AggregateCall:
    """The least value."""
    return AggregateCall("min", of)


def max_(of: Expr | Selector | None = None) -> AggregateCall:
    """The greatest value."""
    return AggregateCall("max", of)


def avg(of: Expr | Selector | None = None) -> AggregateCall:
    """The average."""
    return AggregateCall("avg", of)


def first(of: Expr | Selector | None = None) -> AggregateCall:
    """The value of the record that was processed first."""
    return AggregateCall("first", of)


def last(of: Expr | Selector | None = None) -> AggregateCall:
    """The value of the record that was processed last."""
    return AggregateCall("last", of)


def top_k(k: int, of: Expr | Selector | None = None, *, by: Callable[[Any], Any] | None = None) -> AggregateCall:
    """The k greatest values, greatest first; of equal values the earlier one comes first.

    Args:
        k: The number of values.
        of: Extracts the value; see `AggregateCall`.
        by: A function of a value that returns its sort key; without it, values are compared themselves.
    """
    if not isinstance(k, int) or k < 1:
        raise TopologyError(f"top_k: k must be a number of at least 1, got {k!r}")
    return AggregateCall("top_k", of, (("k", k), *((("by", by),) if by is not None else ())))


def collect(of: Expr | Selector | None = None, *, limit: int | None = None, distinct: bool = False) -> AggregateCall:
    """All values in a list, in the order in which the records were processed.

    Args:
        of: Extracts the value; see `AggregateCall`.
        limit: The maximum number of values: only the first ones are collected.
        distinct: Equal values are collected once.
    """
    options = () if limit is None else (("limit", limit),)
    return AggregateCall("collect", of, (*options, *((("distinct", True),) if distinct else ())))


def count_distinct(of: Expr | Selector | None = None) -> AggregateCall:
    """The number of distinct values. It is exact: the store contains each of them."""
    return AggregateCall("count_distinct", of)


# ----- accumulators --------------------------------------------------------------------------------------------------


def _count() -> Accumulator:
    return Accumulator(
        lambda: 0,
        lambda state, _value: state + 1,
        lambda left, right: left + right,
        undo=lambda state, _value: state - 1,
    )


def _sum() -> Accumulator:
    return Accumulator(
        lambda: 0,
        lambda state, value: state + value,
        lambda left, right: left + right,
        undo=lambda state, value: state - value,
    )


def _avg() -> Accumulator:
    return Accumulator(
        lambda: [0, 0],
        lambda state, value: [state[0] + value, state[1] + 1],
        lambda left, right: [left[0] + right[0], left[1] + right[1]],
        undo=lambda state, value: [state[0] - value, state[1] - 1],
        finish=lambda state: state[0] / state[1] if state[1] else None,
    )


def _chosen(choose: Callable[[Any, Any], Any]) -> Callable[[], Accumulator]:
    """Returns the accumulator of an aggregate that is one of the values."""

    def merge(left: Any, right: Any) -> Any:
        return right if left is None else left if right is None else choose(left, right)

    return lambda: Accumulator(lambda: None, merge, merge)


def _top_k(k: int, by: Callable[[Any], Any] | None = None) -> Accumulator:
    def best(values: list[Any]) -> list[Any]:
        return heapq.nlargest(k, values, key=by)

    return Accumulator(list, lambda state, value: best([*state, value]), lambda left, right: best([*left, *right]))


def _collect(limit: int | None = None, distinct: bool = False) -> Accumulator:
    def extend(values: list[Any], more: list[Any]) -> list[Any]:
        for item in more:
            if (limit is None or len(values) < limit) and not (distinct and item in values):
                values = [*values, item]
        return values

    def remove(values: list[Any], item: Any) -> list[Any]:
        index = values.index(item) if item in values else len(values)
        return values[:index] + values[index + 1 :]

    # Values beyond the limit and duplicates are not in the list, so they cannot replace a removed value.
    undo = None if distinct or limit is not None else remove
    return Accumulator(list, lambda state, value: extend(state, [value]), extend, undo=undo)


def _count_distinct() -> Accumulator:
    return _collect(distinct=True)._replace(finish=len)


AGGREGATES: dict[str, AggregateFunction] = {
    row.name: row
    for row in (
        AggregateFunction("count", _count, "The number of records.", int),
        AggregateFunction("sum", _sum, "The sum."),
        AggregateFunction("min", _chosen(min), "The least value."),
        AggregateFunction("max", _chosen(max), "The greatest value."),
        AggregateFunction("avg", _avg, "The average.", float),
        AggregateFunction("first", _chosen(lambda old, _new: old), "The value that was processed first."),
        AggregateFunction("last", _chosen(lambda _old, new: new), "The value that was processed last."),
        AggregateFunction("top_k", _top_k, "The k greatest values.", list),
        AggregateFunction("collect", _collect, "All values in a list.", list),
        AggregateFunction("count_distinct", _count_distinct, "The number of distinct values.", int),
    )
}
"""Every aggregate function, by name."""
