"""Aggregates that count, sum and measure."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from millstream.sql.functions.arithmetic import arithmetic, divide_doubles, truncated_division
from millstream.sql.functions.catalogue import Accumulator, AggregateFunction, AggregateOverload, aggregate
from millstream.sql.functions.decimals import EXACT, ensure_fit, unit
from millstream.sql.functions.signatures import Bound
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, ArrayType, DecimalType, SqlType, StructType

Add = Callable[[Any, Any], Any]


class Count(Accumulator):
    """Counts rows; with a column, those in which it is not NULL."""

    state = BIGINT
    can_undo = True

    def initial(self) -> int:
        """Returns 0."""
        return 0

    def add(self, state: int, *values: Any) -> int:
        """Counts a row."""
        return state if values and values[0] is None else state + 1

    def undo(self, state: int, *values: Any) -> int:
        """Counts down."""
        return state if values and values[0] is None else state - 1

    def merge(self, left: int, right: int) -> int:
        """Adds the counts."""
        return left + right


def plus(type_: SqlType) -> Add:
    """Returns the addition of a type: it wraps for integers, and raises if a DECIMAL does not fit."""
    if type_ in {INTEGER, BIGINT}:
        return arithmetic("+", type_, type_)[1]
    if isinstance(type_, DecimalType):
        return lambda left, right: ensure_fit(EXACT.add(left, right), type_)
    return lambda left, right: left + right


def zero(type_: SqlType) -> Any:
    """Returns 0 of a type."""
    if isinstance(type_, DecimalType):
        return Decimal(0).quantize(unit(type_.scale))
    return 0.0 if type_ == DOUBLE else 0


class Sum(Accumulator):
    """Sums values that are not NULL."""

    can_undo = True

    def __init__(self, type_: SqlType) -> None:
        self.state = type_
        self._plus = plus(type_)
        self._zero = zero(type_)
        # The minus of Decimal would round to 28 digits.
        self._negative: Callable[[Any], Any] = Decimal.copy_negate if isinstance(type_, DecimalType) else operator.neg

    def initial(self) -> Any:
        """Returns 0."""
        return self._zero

    def add(self, state: Any, *values: Any) -> Any:
        """Adds a value."""
        return state if values[0] is None else self._plus(state, values[0])

    def undo(self, state: Any, *values: Any) -> Any:
        """Subtracts a value."""
        return state if values[0] is None else self._plus(state, self._negative(values[0]))

    def merge(self, left: Any, right: Any) -> Any:
        """Adds the sums."""
        return self._plus(left, right)


class SumList(Sum):
    """Sums the elements of arrays."""

    def add(self, state: Any, *values: Any) -> Any:
        """Adds the elements."""
        for item in values[0] or ():
            state = super().add(state, item)
        return state

    def undo(self, state: Any, *values: Any) -> Any:
        """Subtracts the elements."""
        for item in values[0] or ():
            state = super().undo(state, item)
        return state


class Average(Accumulator):
    """Divides the sum by the count."""

    can_undo = True

    def __init__(self, type_: SqlType) -> None:
        self.state = StructType((("SUM", type_), ("COUNT", BIGINT)))
        self._plus = plus(type_)
        self._zero = zero(type_)

    def initial(self) -> dict[str, Any]:
        """Returns the sum and count of nothing."""
        return {"SUM": self._zero, "COUNT": 0}

    def add(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Adds a value."""
        return state if values[0] is None else self._changed(state, values[0], 1)

    def undo(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Subtracts a value."""
        return state if values[0] is None else self._changed(state, -values[0], -1)

    def _changed(self, state: dict[str, Any], value: Any, count: int) -> dict[str, Any]:
        return {"SUM": self._plus(state["SUM"], value), "COUNT": state["COUNT"] + count}

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Adds sums and counts."""
        return self._changed(left, right["SUM"], right["COUNT"])

    def finish(self, state: dict[str, Any]) -> float:
        """Returns the average; 0.0 if there is no value."""
        return float(state["SUM"]) / state["COUNT"] if state["COUNT"] else 0.0


_DEVIATION = StructType((("SUM", DOUBLE), ("COUNT", BIGINT), ("M2", DOUBLE)))


def _whole_average(total: float, count: int) -> float:
    return truncated_division(int(total), count)


class Variance(Accumulator):
    """The sample variance, by the method of Youngs and Cramer; its square root if ``root`` is set."""

    state = _DEVIATION
    can_undo = True

    def __init__(self, type_: SqlType, *, root: bool) -> None:
        self._root = root
        # The dialect merges sessions of whole numbers by averages that are whole numbers, too.
        self._average: Callable[[float, int], float] = divide_doubles if type_ == DOUBLE else _whole_average

    def initial(self) -> dict[str, Any]:
        """Returns the measures of nothing."""
        return {"SUM": 0.0, "COUNT": 0, "M2": 0.0}

    def add(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Adds a value."""
        value = values[0]
        if value is None:
            return state
        count, total = state["COUNT"] + 1, state["SUM"] + value
        return {"SUM": total, "COUNT": count, "M2": state["M2"] + self._spread(count, value, total)}

    def undo(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Takes a value out again."""
        value = values[0]
        if value is None:
            return state
        spread = self._spread(state["COUNT"], value, state["SUM"])
        return {"SUM": state["SUM"] - value, "COUNT": state["COUNT"] - 1, "M2": state["M2"] - spread}

    @staticmethod
    def _spread(count: int, value: float, total: float) -> float:
        return (count * value - total) ** 2 / (count * (count - 1)) if count > 1 else 0.0

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Adds the measures, and what the difference of the averages adds to the spread."""
        one, other = left["COUNT"], right["COUNT"]
        if not one or not other:
            return right if not one else left
        difference = self._average(left["SUM"], one) - self._average(right["SUM"], other)
        gap = one * other * difference * difference / (one + other)
        return {"SUM": left["SUM"] + right["SUM"], "COUNT": one + other, "M2": left["M2"] + right["M2"] + gap}

    def finish(self, state: dict[str, Any]) -> float:
        """Returns the variance or its root; 0.0 for less than two values."""
        if state["COUNT"] < 2:
            return 0.0
        variance = float(state["M2"] / (state["COUNT"] - 1))
        return math.sqrt(max(variance, 0.0)) if self._root else variance


_SUMS = ("COUNT", "X", "Y", "XX", "YY", "XY")


class Correlation(Accumulator):
    """Pearson's correlation of two columns; rows with a NULL are skipped."""

    state = StructType((("COUNT", BIGINT), *((name, DOUBLE) for name in _SUMS[1:])))
    can_undo = True

    def initial(self) -> dict[str, Any]:
        """Returns sums of 0."""
        return {"COUNT": 0, **dict.fromkeys(_SUMS[1:], 0.0)}

    def add(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Adds a pair."""
        return self._changed(state, values, 1)

    def undo(self, state: dict[str, Any], *values: Any) -> dict[str, Any]:
        """Takes a pair out again."""
        return self._changed(state, values, -1)

    @staticmethod
    def _changed(state: dict[str, Any], values: tuple[Any, ...], sign: int) -> dict[str, Any]:
        if None in values:
            return state
        x, y = map(float, values)
        terms = {"COUNT": 1, "X": x, "Y": y, "XX": x * x, "YY": y * y, "XY": x * y}
        return {name: state[name] + sign * term for name, term in terms.items()}

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """Adds the sums."""
        return {name: left[name] + right[name] for name in _SUMS}

    def finish(self, state: dict[str, Any]) -> float:
        """Returns the correlation, NaN if it has no value."""
        count, x, y, xx, yy, xy = (state[name] for name in _SUMS)
        product = (count * xx - x * x) * (count * yy - y * y)
        return divide_doubles(count * xy - x * y, math.sqrt(product) if product >= 0 else math.nan)


def _of_element(bound: Bound) -> SqlType:
    type_ = bound.type(0)
    assert isinstance(type_, ArrayType)
    return type_.element


def _each(signature: str, types: tuple[str, ...], make: Callable[[SqlType], Accumulator]) -> list[AggregateOverload]:
    return [aggregate(signature.replace("x", type_), lambda bound, _config: make(bound.type(0))) for type_ in types]


_NUMBERS = ("INT", "BIGINT", "DOUBLE")

FUNCTIONS = (
    AggregateFunction(
        "COUNT",
        "aggregate",
        "Counts rows, or those in which a column is not NULL.",
        "count",
        None,
        (
            aggregate("() -> BIGINT", lambda _bound, _config: Count()),
            aggregate("(T) -> BIGINT", lambda _bound, _config: Count()),
        ),
    ),
    AggregateFunction(
        "SUM",
        "aggregate",
        "Sums a column; NULLs are skipped.",
        "sum",
        None,
        tuple(_each("(x) -> x", (*_NUMBERS, "DECIMAL"), Sum)),
    ),
    AggregateFunction(
        "SUM_LIST",
        "aggregate",
        "Sums the elements of arrays; NULLs are skipped.",
        "sum_list",
        None,
        tuple(
            aggregate(f"(ARRAY<{type_}>) -> {type_}", lambda bound, _config: SumList(_of_element(bound)))
            for type_ in _NUMBERS
        ),
    ),
    AggregateFunction(
        "AVG",
        "aggregate",
        "Returns the average of a column; 0.0 if there is no value.",
        "avg",
        None,
        tuple(_each("(x) -> DOUBLE", _NUMBERS, Average)),
    ),
    AggregateFunction(
        "STDDEV_SAMP",
        "aggregate",
        "Returns the sample variance of a column (the name promises its root: see STDDEV_SAMPLE).",
        "stddev_samp",
        None,
        tuple(_each("(x) -> DOUBLE", _NUMBERS, lambda type_: Variance(type_, root=False))),
    ),
    AggregateFunction(
        "STDDEV_SAMPLE",
        "aggregate",
        "Returns the sample standard deviation of a column.",
        "stddev_sample",
        None,
        tuple(_each("(x) -> DOUBLE", _NUMBERS, lambda type_: Variance(type_, root=True))),
    ),
    AggregateFunction(
        "CORRELATION",
        "aggregate",
        "Returns Pearson's correlation of two columns.",
        "correlation",
        None,
        tuple(_each("(x, x) -> DOUBLE", _NUMBERS, lambda _type: Correlation())),
    ),
)
