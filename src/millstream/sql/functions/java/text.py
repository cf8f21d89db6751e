"""The text that Java gives to values."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from millstream.sql.functions.java.calendar import (
    MS_PER_DAY,
    civil_from_days,
    date_text,
    time_text,
    timestamp_text,
)
from millstream.sql.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)


def double_text(value: float) -> str:
    """Returns the text of ``Double.toString``.

    >>> [double_text(x) for x in (1.0, 1e7, 123456.789, 0.001, 0.0001, -1.5e300, float("inf"))]
    ['1.0', '1.0E7', '123456.789', '0.001', '1.0E-4', '-1.5E300', 'Infinity']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    size = abs(value)
    if 1e-3 <= size < 1e7:
        text = repr(value)
        return text if "e" not in text else format(Decimal(text), "f")
    if 2**54 <= size < 2**63:
        return _large_integer_text(value)
    # Of the texts with two digits Java takes the closest, even if one digit is enough.
    two_digits = f"{value:.1e}"
    sign, digits, exponent = Decimal(two_digits if float(two_digits) == value else repr(value)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0")
    fraction = shown[1:] or "0"
    return f"{'-' if sign else ''}{shown[0]}.{fraction}E{exponent + len(digits) - 1}"


def _large_integer_text(value: float) -> str:
    """Whole numbers that need more than 53 bits: Java, up to version 18, cuts the digits that have no meaning.

    The result may be longer than needed; results of the dialect's own tests have this text.
    """
    bits = int(abs(value)).bit_length() - 1
    insignificant = int((bits - 54) * math.log10(2)) if bits > 54 else 0
    whole, rest = divmod(int(abs(value)), 10**insignificant)
    digits = str(whole + (insignificant > 0 and rest >= 10**insignificant // 2))
    shown = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{shown[0]}.{shown[1:] or '0'}E{len(digits) + insignificant - 1}"


def decimal_text(value: Decimal) -> str:
    """Returns plain text, never scientific."""
    return format(value, "f")


def _sql_timestamp_text(value: int) -> str:
    days, rest = divmod(value, MS_PER_DAY)
    seconds, fraction = divmod(rest, 1000)
    year, month, day = civil_from_days(days)
    shown = f"{fraction:03d}".rstrip("0") or "0"
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d} {clock}.{shown}"


def _clock_text(value: int) -> str:
    seconds = value // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _buffer_text(value: bytes) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"


_TOP: dict[SqlType, Callable[[Any], str]] = {
    BOOLEAN: lambda value: "true" if value else "false",
    DOUBLE: double_text,
    STRING: lambda value: value,
    DATE: date_text,
    TIME: time_text,
    TIMESTAMP: timestamp_text,
}

# Inside of collections Java prints the objects themselves: java.sql.Time, java.sql.Timestamp and byte buffers.
_NESTED: dict[SqlType, Callable[[Any], str]] = {
    **_TOP,
    TIME: _clock_text,
    TIMESTAMP: _sql_timestamp_text,
    BYTES: _buffer_text,
}


def text_of(type_: SqlType, *, nested: bool = False) -> Callable[[Any], str]:
    """Returns the function that gives the text of values of a type that are not NULL.

    >>> text_of(MapType(STRING, ArrayType(DOUBLE)))({"a": [1.0, None]})
    '{a=[1.0, null]}'
    >>> text_of(StructType((("A", DOUBLE), ("B", STRING))))({"A": None, "B": "x"})
    'Struct{B=x}'
    """
    plain = (_NESTED if nested else _TOP).get(type_)
    if plain is not None:
        return plain
    if isinstance(type_, DecimalType):
        return decimal_text
    if isinstance(type_, ArrayType):
        element = _nullable(type_.element)
        return lambda items: f"[{', '.join([element(item) for item in items])}]"
    if isinstance(type_, MapType):
        key, value = _nullable(type_.key), _nullable(type_.value)
        return lambda entries: f"{{{', '.join([f'{key(k)}={value(v)}' for k, v in entries.items()])}}}"
    if isinstance(type_, StructType):
        fields = [(name, text_of(part, nested=True)) for name, part in type_.fields]

        def struct_text(struct: dict[str, Any]) -> str:
            shown = [f"{name}={text(struct[name])}" for name, text in fields if struct.get(name) is not None]
            return f"Struct{{{','.join(shown)}}}"

        return struct_text
    return str


def _nullable(type_: SqlType) -> Callable[[Any], str]:
    text = text_of(type_, nested=True)
    return lambda value: "null" if value is None else text(value)
