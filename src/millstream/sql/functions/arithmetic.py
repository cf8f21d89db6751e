"""Arithmetic: the type of an expression and the function of two values that are not None."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.casts import cast, wrap_int, wrap_long
from millstream.sql.functions.coercion import as_decimal, is_number
from millstream.sql.functions.decimals import EXACT, divide, ensure_fit, result_type
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, STRING, DecimalType, SqlType

Binary = Callable[[Any, Any], Any]
ColumnsBinary = Callable[[Iterable[Any], Iterable[Any]], list[Any]]


def truncated_division(left: int, right: int) -> int:
    """Divides and drops the fraction.

    >>> truncated_division(-7, 2), -7 // 2
    (-3, -4)
    """
    if right == 0:
        raise ZeroDivisionError("Division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def truncated_remainder(left: int, right: int) -> int:
    """Returns the remainder with the sign of the dividend.

    >>> truncated_remainder(-7, 2), -7 % 2
    (-1, 1)
    """
    if right == 0:
        raise ZeroDivisionError("Division by zero")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def divide_doubles(left: float, right: float) -> float:
    """Divides as IEEE 754 says.

    >>> divide_doubles(1.0, 0.0), divide_doubles(-1.0, 0.0), divide_doubles(0.0, 0.0)
    (inf, -inf, nan)
    """
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def double_remainder(left: float, right: float) -> float:
    """Returns the remainder with the sign of the dividend; NaN where it has no value."""
    if right == 0 or not math.isfinite(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


_INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": truncated_division,
    "%": truncated_remainder,
}
_DOUBLE_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide_doubles,
    "%": double_remainder,
}


def arithmetic(symbol: str, left: SqlType | None, right: SqlType | None) -> tuple[SqlType, Binary]:
    """Returns the type of ``left symbol right`` and the function that computes it.

    String concatenation sees NULLs: the caller passes None, which becomes the text ``null``.

    >>> type_, divide = arithmetic("/", INTEGER, BIGINT)
    >>> print(type_, divide(-7, 2))
    BIGINT -3

    Raises:
        SqlStatementError: The operator does not take these types; None is the literal NULL.
    """
    if left is None or right is None:
        shown = ["null" if type_ is None else str(type_) for type_ in (left, right)]
        raise SqlStatementError(f"Arithmetic on types {shown[0]} and {shown[1]} are not supported.")
    if left == STRING and right == STRING and symbol == "+":
        return STRING, concatenate
    if not is_number(left) or not is_number(right):
        raise SqlStatementError(f"Unsupported arithmetic types. {_base(left)} {_base(right)}")
    if DOUBLE in {left, right}:
        return DOUBLE, _convert_both(_DOUBLE_OPERATORS[symbol], left, right, DOUBLE)
    if isinstance(left, DecimalType) or isinstance(right, DecimalType):
        one, other = as_decimal(left), as_decimal(right)
        assert one is not None
        assert other is not None
        type_ = result_type(symbol, one, other)
        return type_, _decimal_operator(symbol, type_, left, right)
    return (BIGINT, _LONG_OPERATORS[symbol]) if BIGINT in {left, right} else (INTEGER, _INT_OPERATORS[symbol])


def _long_operator(compute: Callable[[int, int], int]) -> Binary:
    def call(left: int, right: int) -> int:
        result = compute(left, right)
        return result if -0x8000000000000000 <= result <= 0x7FFFFFFFFFFFFFFF else wrap_long(result)

    return call


def _int_operator(compute: Callable[[int, int], int]) -> Binary:
    def call(left: int, right: int) -> int:
        result = compute(left, right)
        return result if -0x80000000 <= result <= 0x7FFFFFFF else wrap_int(result)

    return call


def _columns_operator(compute: Binary, low: int, high: int, wrap: Callable[[int], int]) -> ColumnsBinary:
    def call(left: Iterable[int], right: Iterable[int]) -> list[int]:
        results = list(map(compute, left, right))
        if results and (min(results) < low or max(results) > high):
            return list(map(wrap, results))
        return results

    return call


_INT_OPERATORS = {symbol: _int_operator(compute) for symbol, compute in _INTEGER_OPERATORS.items()}
_LONG_OPERATORS = {symbol: _long_operator(compute) for symbol, compute in _INTEGER_OPERATORS.items()}
_FOR_COLUMNS: dict[Callable[..., Any], ColumnsBinary] = {}
for _symbol, _compute in _INTEGER_OPERATORS.items():
    _FOR_COLUMNS[_INT_OPERATORS[_symbol]] = _columns_operator(_compute, -(1 << 31), (1 << 31) - 1, wrap_int)
    _FOR_COLUMNS[_LONG_OPERATORS[_symbol]] = _columns_operator(_compute, -(1 << 63), (1 << 63) - 1, wrap_long)


def for_columns(call: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Returns the form of a function of values that takes columns of values; it raises if one of the calls raises.

    >>> _type, add = arithmetic("+", INTEGER, INTEGER)
    >>> for_columns(add)([1, 2**31 - 1], [5, 1])
    [6, -2147483648]
    """
    return _FOR_COLUMNS.get(call) or (lambda *columns: list(map(call, *columns)))


def _base(type_: SqlType) -> str:
    """The name of a type without its parameters, as messages of the dialect have it."""
    return str(type_).partition("(")[0].partition("<")[0]


def concatenate(left: str | None, right: str | None) -> str:
    """Joins texts as ``+`` of Java does: NULL becomes the text ``null``."""
    return f"{'null' if left is None else left}{'null' if right is None else right}"


def _convert_both(compute: Binary, left: SqlType, right: SqlType, target: SqlType) -> Binary:
    to_left, to_right = cast(left, target), cast(right, target)
    if to_left is None:
        return compute if to_right is None else lambda a, b: compute(a, to_right(b))
    return lambda a, b: compute(to_left(a), b if to_right is None else to_right(b))


def _decimal_operator(symbol: str, type_: DecimalType, left: SqlType, right: SqlType) -> Binary:
    if symbol == "/":
        compute: Binary = lambda a, b: divide(a, b, type_)  # noqa: E731  (one of four functions)
    elif symbol == "%":
        compute = lambda a, b: ensure_fit(_remainder(a, b), type_)  # noqa: E731
    else:
        exact = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[symbol]
        compute = lambda a, b: ensure_fit(exact(a, b), type_)  # noqa: E731
    if isinstance(left, DecimalType) and isinstance(right, DecimalType):
        return compute
    return lambda a, b: compute(_as_decimal(a), _as_decimal(b))


def _as_decimal(value: Decimal | int) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value)


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise ZeroDivisionError("Division by zero")
    try:
        return EXACT.remainder(left, right)
    except decimal.InvalidOperation:
        raise ArithmeticError("Division impossible") from None


def negation(type_: SqlType | None) -> Callable[[Any], Any]:
    """Returns the function of unary minus, which keeps the type.

    Raises:
        SqlStatementError: The type is no number.
    """
    if type_ == INTEGER:
        return lambda value: wrap_int(-value)
    if type_ == BIGINT:
        return lambda value: wrap_long(-value)
    if type_ == DOUBLE:
        return operator.neg
    if isinstance(type_, DecimalType):
        return lambda value: value.copy_negate() if value else value
    raise SqlStatementError(f"Unary minus needs a number, not {'null' if type_ is None else type_}")
