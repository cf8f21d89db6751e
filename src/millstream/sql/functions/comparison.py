"""Comparisons of two values that are not None."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.casts import Converter, cast
from millstream.sql.functions.coercion import is_number
from millstream.sql.functions.java.calendar import MS_PER_DAY
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

Predicate = Callable[[Any, Any], bool]

_OPERATORS: dict[str, Predicate] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATOR_NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "IS_NOT_DISTINCT_FROM",
}
"""The names of the operators in messages."""

_TIMES = (DATE, TIME, TIMESTAMP)


def comparison(
    symbol: str, left: SqlType | None, right: SqlType | None, shown: tuple[str, str] | None = None
) -> Predicate:
    """Returns the function that compares two values that are not None, for ``= <> < <= > >=``.

    ``shown`` are the texts of both sides, for messages.

    >>> comparison("<", STRING, STRING)("a", "b")
    True

    Raises:
        SqlStatementError: The types cannot be compared so; None is the literal NULL.
    """
    if left is None or right is None:
        raise _with_null(symbol, shown)
    converters = _converters(left, right, equality=symbol in {"=", "<>"})
    if converters is None:
        raise incomparable(symbol, left, right, shown)
    compare = _apart if symbol == "<>" and DOUBLE in {left, right} else _OPERATORS[symbol]
    one, other = converters
    if one is None and other is None:
        return compare
    if other is None:
        assert one is not None
        to_left = one
        return lambda a, b: compare(to_left(a), b)
    if one is None:
        to_right = other
        return lambda a, b: compare(a, to_right(b))
    both_left, both_right = one, other
    return lambda a, b: compare(both_left(a), both_right(b))


def _apart(left: float, right: float) -> bool:
    """``<>`` of doubles: NaN is neither equal to a number nor different from it."""
    return left < right or left > right


def incomparable(symbol: str, left: SqlType, right: SqlType, shown: tuple[str, str] | None) -> SqlStatementError:
    """Returns the error for types that cannot be compared."""
    one, other = (str(left), str(right)) if shown is None else (f"{shown[0]} ({left})", f"{shown[1]} ({right})")
    return SqlStatementError(
        f"Cannot compare {one} to {other} with {OPERATOR_NAMES[symbol]}.", hint="CAST one of them to the other type"
    )


def _with_null(symbol: str, shown: tuple[str, str] | None) -> SqlStatementError:
    place = "" if shown is None else f": {shown[0]} {symbol} {shown[1]}"
    return SqlStatementError(f"Comparison with NULL not supported{place}", hint="use IS NULL or IS NOT NULL")


def equality(left: SqlType | None, right: SqlType | None) -> Predicate:
    """Returns the function of ``=``."""
    return comparison("=", left, right)


def distinct(left: SqlType | None, right: SqlType | None, shown: tuple[str, str] | None = None) -> Predicate:
    """Returns the function of IS DISTINCT FROM, in which NULL is a value like others."""
    if left is None or right is None:
        raise _with_null("IS DISTINCT FROM", shown)
    if _converters(left, right, equality=True) is None:
        raise incomparable("IS DISTINCT FROM", left, right, shown)
    differ = comparison("<>", left, right)
    return lambda a, b: (a is not b) if a is None or b is None else differ(a, b)


def _converters(left: SqlType, right: SqlType, *, equality: bool) -> tuple[Converter | None, Converter | None] | None:
    """Returns what brings both sides to values that Python compares in the same way; None if there is nothing."""
    if is_number(left) and is_number(right):
        return _number(left, right), _number(right, left)
    if left == right and left in {STRING, *_TIMES}:
        return (_code_units, _code_units) if left == STRING and not equality else (None, None)
    if left == right == BYTES:
        return (None, None) if equality else (_signed_bytes, _signed_bytes)
    same_kind = type(left) is type(right) and isinstance(left, ArrayType | MapType | StructType)
    if equality and (same_kind or left == right == BOOLEAN):
        return None, None
    return _time(left, right)


def _number(type_: SqlType, other: SqlType) -> Converter | None:
    # Python compares int and Decimal by value. A DOUBLE beside a DECIMAL stands for the number that its text shows;
    # an integer beside a DOUBLE becomes one, with its loss of digits.
    if type_ == DOUBLE and isinstance(other, DecimalType):
        return _shown_decimal
    return float if type_ in {INTEGER, BIGINT} and other == DOUBLE else None


def _shown_decimal(value: float) -> Decimal:
    if not math.isfinite(value):
        raise ArithmeticError(f"{value} cannot be compared with a DECIMAL")
    return Decimal(repr(value))


def _time(left: SqlType, right: SqlType) -> tuple[Converter | None, Converter | None] | None:
    if left == STRING and right in _TIMES:
        return cast(STRING, right), None
    if right == STRING and left in _TIMES:
        return None, cast(STRING, left)
    if left == DATE and right == TIMESTAMP:
        return _midnight, None
    if left == TIMESTAMP and right == DATE:
        return None, _midnight
    return None


def _midnight(days: int) -> int:
    return days * MS_PER_DAY


def _code_units(text: str) -> str | bytes:
    """Text that Python orders as Java does: by UTF-16 code units, which differs only beyond U+FFFF."""
    return text if text.isascii() else _utf16(text)


def _utf16(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))


def _signed_bytes(value: bytes) -> bytes:
    """Bytes that Python orders as Java does, whose bytes are signed."""
    return bytes(byte ^ 0x80 for byte in value)
