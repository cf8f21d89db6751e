"""Aggregates that keep values: extremes, first and last ones, the value of all rows, counts by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.arguments import MISSING
from millstream.sql.functions.catalogue import Accumulator, AggregateFunction, aggregate
from millstream.sql.functions.signatures import Bound
from millstream.sql.functions.values import order_of
from millstream.sql.types import BIGINT, STRING, ArrayType, MapType, SqlType, StructType


class Extreme(Accumulator):
    """The smallest or the largest value."""

    def __init__(self, type_: SqlType, choose: Callable[..., Any]) -> None:
        self.state = type_
        self._choose = choose
        self._key = order_of(type_)

    def initial(self) -> None:
        """Returns NULL."""

    def add(self, state: Any, *values: Any) -> Any:
        """Compares with a value."""
        return self.merge(state, values[0])

    def merge(self, left: Any, right: Any) -> Any:
        """Compares both."""
        if left is None or right is None:
            return right if left is None else left
        return self._choose(left, right, key=self._key) if self._key else self._choose(left, right)


class ManyByOffset(Accumulator):
    """The first or the last n values by arrival.

    The values of sessions that are merged are in the order of the sessions. A number for the arrival of each value
    would be exact also where sessions arrive out of order, but a batch that runs again would write another number.
    """

    def __init__(self, type_: SqlType, count: int, *, latest: bool, ignore_nulls: bool) -> None:
        self.state = ArrayType(type_)
        self._count = count
        self._latest = latest
        self._ignore_nulls = ignore_nulls

    def initial(self) -> list[Any]:
        """Returns no values."""
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        """Appends the value, if it is one of those to keep."""
        if (values[0] is None and self._ignore_nulls) or (len(state) >= self._count and not self._latest):
            return state
        return self._kept([*state, values[0]])

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        """Keeps the first or last values of both."""
        return self._kept([*left, *right])

    def _kept(self, items: list[Any]) -> list[Any]:
        return items[-self._count :] if self._latest else items[: self._count]

    def finish(self, state: list[Any]) -> Any:
        """Returns the values, the oldest first."""
        return state


class ByOffset(ManyByOffset):
    """The first or the last value by arrival."""

    def __init__(self, type_: SqlType, *, latest: bool, ignore_nulls: bool) -> None:
        super().__init__(type_, 1, latest=latest, ignore_nulls=ignore_nulls)

    def finish(self, state: list[Any]) -> Any:
        """Returns the value."""
        return state[0] if state else None


class Attribute(Accumulator):
    """The value of all rows, if it is the same; NULL counts as a value."""

    can_undo = True

    def __init__(self, type_: SqlType) -> None:
        self.state = ArrayType(StructType((("VAL", type_), ("COUNT", BIGINT))))

    def initial(self) -> list[dict[str, Any]]:
        """Returns no values."""
        return []

    def add(self, state: list[dict[str, Any]], *values: Any) -> list[dict[str, Any]]:
        """Counts the value."""
        return self._changed(state, values[0], 1)

    def undo(self, state: list[dict[str, Any]], *values: Any) -> list[dict[str, Any]]:
        """Counts the value down."""
        return self._changed(state, values[0], -1)

    @staticmethod
    def _changed(state: list[dict[str, Any]], value: Any, by: int) -> list[dict[str, Any]]:
        known = any(item["VAL"] == value for item in state)
        counts = state if known else [*state, {"VAL": value, "COUNT": 0}]
        changed = [{**item, "COUNT": item["COUNT"] + by} if item["VAL"] == value else item for item in counts]
        return [item for item in changed if item["COUNT"] > 0]

    def merge(self, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds the counts."""
        for item in right:
            left = self._changed(left, item["VAL"], item["COUNT"])
        return left

    def finish(self, state: list[dict[str, Any]]) -> Any:
        """Returns the only value, NULL if there are several."""
        return state[0]["VAL"] if len(state) == 1 else None


class Histogram(Accumulator):
    """Counts texts."""

    state = MapType(STRING, BIGINT)
    can_undo = True
    LIMIT = 1000

    def initial(self) -> dict[str, int]:
        """Returns no counts."""
        return {}

    def add(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        """Counts a text, unless it is new and there are too many."""
        text = values[0]
        if text is None or (text not in state and len(state) >= self.LIMIT):
            return state
        return {**state, text: state.get(text, 0) + 1}

    def undo(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        """Counts a text down; it goes away at 0."""
        text = values[0]
        if text not in state:
            return state
        changed = {**state, text: state[text] - 1}
        if changed[text] < 1:
            del changed[text]
        return changed

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        """Adds the counts."""
        merged = dict(left)
        for text, count in right.items():
            if text in merged or len(merged) < self.LIMIT:
                merged[text] = merged.get(text, 0) + count
        return merged


def _extremes(name: str, documentation: str, choose: Callable[..., Any]) -> AggregateFunction:
    types = ("INT", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "STRING", "BYTES")
    overloads = tuple(
        aggregate(f"({type_}) -> {type_}", lambda bound, _config: Extreme(bound.type(0), choose)) for type_ in types
    )
    return AggregateFunction(name, "aggregate", documentation, name.lower(), None, overloads)


def _literal(bound: Bound, index: int, default: Any) -> Any:
    value = bound.literals[index] if index < len(bound.literals) else MISSING
    return default if value is MISSING else value


def _count(name: str, bound: Bound) -> int:
    count = int(bound.literals[1])
    if count < 1:
        raise SqlStatementError(f"{name} must be called with a number of values that is at least 1, not {count}")
    return count


def _by_offset(name: str, documentation: str, *, latest: bool) -> AggregateFunction:
    def one(bound: Bound, _config: Any) -> Accumulator:
        return ByOffset(bound.type(0), latest=latest, ignore_nulls=_literal(bound, 1, default=True))

    def many(bound: Bound, _config: Any) -> Accumulator:
        ignore = _literal(bound, 2, default=True)
        return ManyByOffset(bound.type(0), _count(name, bound), latest=latest, ignore_nulls=ignore)

    overloads = (
        aggregate("(T) -> T", one),
        aggregate("(T, BOOLEAN) -> T", one, literals=1),
        aggregate("(T, INT) -> ARRAY<T>", many, literals=1),
        aggregate("(T, INT, BOOLEAN) -> ARRAY<T>", many, literals=2),
    )
    return AggregateFunction(name, "aggregate", documentation, name.lower(), None, overloads)


FUNCTIONS = (
    _extremes("MIN", "Returns the smallest value of a column.", min),
    _extremes("MAX", "Returns the largest value of a column.", max),
    _by_offset(
        "LATEST_BY_OFFSET",
        "Returns the last value of a column that arrived, or the last n; NULLs are skipped unless FALSE is given.",
        latest=True,
    ),
    _by_offset(
        "EARLIEST_BY_OFFSET",
        "Returns the first value of a column that arrived, or the first n; NULLs are skipped unless FALSE is given.",
        latest=False,
    ),
    AggregateFunction(
        "ATTR",
        "aggregate",
        "Returns the value of a column if it is the same in all rows, else NULL.",
        "attr",
        None,
        (aggregate("(T) -> T", lambda bound, _config: Attribute(bound.type(0))),),
    ),
    AggregateFunction(
        "HISTOGRAM",
        "aggregate",
        f"Counts the texts of a column, at most {Histogram.LIMIT} different ones.",
        "histogram",
        None,
        (aggregate("(STRING) -> MAP<STRING, BIGINT>", lambda _bound, _config: Histogram()),),
    ),
)
