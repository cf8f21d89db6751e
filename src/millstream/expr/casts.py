"""Casts: one function for each target type.

Arguments are never null. The functions raise ValueError, OverflowError or TypeError for values that cannot be cast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.expr.arithmetic import WIDE
from millstream.expr.datetimes import timestamp_of_text, timestamp_text
from millstream.expr.types import (
    ANY,
    BOOLEAN,
    INTEGERS,
    NULL,
    STRING,
    TIMESTAMP,
    WIDENING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)
from millstream.expr.values import plain, read_field, to_datetime, to_millis

Convert = Callable[[Any], Any]

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


def _refuse(value: Any, target: str) -> TypeError:
    return TypeError(f"cannot cast a {type(value).__name__} to {target}")


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise ValueError(f"{value!r} is not a boolean")
    if isinstance(value, int):
        return value != 0
    raise _refuse(value, "BOOLEAN")


def _to_integer(name: str, bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if isinstance(value, str):
            number = int(_numeral(value, name))
        elif isinstance(value, float | Decimal):
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a {name}")
            number = int(value)
        elif isinstance(value, int | datetime):
            number = int(plain(value))
        else:
            raise _refuse(value, name)
        if not -limit <= number < limit:
            raise OverflowError(f"{number} does not fit {name}")
        return number

    return convert


def _numeral(text: str, name: str) -> str:
    """Refuses texts that only Python accepts as numbers: digits of other scripts, 1_000, nan and infinity."""
    numeral = text.strip()
    if not numeral.isascii() or "_" in numeral or "n" in numeral.lower():
        raise ValueError(f"{text!r} is not a {name}")
    return numeral


def _to_double(value: Any) -> float:
    if isinstance(value, str):
        number = float(_numeral(value, "DOUBLE"))
        if math.isinf(number):
            raise OverflowError(f"{value!r} does not fit DOUBLE")
        return number
    if isinstance(value, int | float | Decimal):
        return float(value)
    raise _refuse(value, "DOUBLE")


def _to_decimal(target: DecimalType) -> Convert:
    def convert(value: Any) -> Decimal:
        number = _any_decimal(value)
        if not number.is_finite():
            raise ValueError(f"{value} is not a DECIMAL")
        if target.precision is None or target.scale is None:
            return number
        rounded = number.quantize(Decimal((0, (1,), -target.scale)), context=WIDE)
        if rounded and rounded.adjusted() >= target.precision - target.scale:
            raise OverflowError(f"{number} does not fit {target}")
        return rounded

    return convert


def _any_decimal(value: Any) -> Decimal:
    if isinstance(value, float):
        return Decimal(repr(value))  # the printed digits, not those of the binary fraction
    if isinstance(value, str):
        try:
            return Decimal(_numeral(value, "DECIMAL"))
        except InvalidOperation:
            raise ValueError(f"{value!r} is not a DECIMAL") from None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    raise _refuse(value, "DECIMAL")


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return timestamp_text(to_millis(value))
    value = plain(value)
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date | time):
        return value.isoformat()
    raise _refuse(value, "STRING")


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _refuse(value, "BYTES")


def _to_timestamp(value: Any) -> int:
    if isinstance(value, str):
        return timestamp_of_text(value)
    if isinstance(value, datetime):
        return to_millis(value)
    if isinstance(value, date):
        return to_millis(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _refuse(value, "TIMESTAMP")


def _to_date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return to_datetime(_to_timestamp(value)).date()


def _to_time(value: Any) -> time:
    if isinstance(value, str):
        return time.fromisoformat(value.strip())
    if isinstance(value, time):
        return value
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).time()
    if isinstance(value, int) and not isinstance(value, bool):
        return to_datetime(value).time()
    raise _refuse(value, "TIME")


def _same(value: Any) -> Any:
    return value


_SCALARS: dict[str, Convert] = {
    "BOOLEAN": _to_boolean,
    "INT": _to_integer("INT", 32),
    "BIGINT": _to_integer("BIGINT", 64),
    "DOUBLE": _to_double,
    "STRING": _to_string,
    "BYTES": _to_bytes,
    "DATE": _to_date,
    "TIME": _to_time,
    "TIMESTAMP": _to_timestamp,
    "ANY": _same,
    "NULL": _same,
}


def caster(source: DataType, target: DataType) -> Convert:
    """Returns the function that casts a value of one type to another. ``source`` may be ANY.

    The source type matters only where Python values are ambiguous: an int is a number, unless its type is TIMESTAMP.

    >>> caster(ANY, STRING)(0), caster(TIMESTAMP, STRING)(0)
    ('0', '1970-01-01T00:00:00.000')
    """
    if source == TIMESTAMP and target == STRING:
        return lambda value: timestamp_text(plain(value))
    if isinstance(target, DecimalType):
        return _to_decimal(target)
    if isinstance(target, ArrayType):
        return _to_array(source, target)
    if isinstance(target, MapType):
        return _to_map(source, target)
    if isinstance(target, StructType):
        return _to_struct(source, target)
    return _SCALARS[target.name]


def _to_array(source: DataType, target: ArrayType) -> Convert:
    convert = _nullable(caster(source.element if isinstance(source, ArrayType) else ANY, target.element))

    def run(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | dict):
            raise _refuse(value, str(target))
        return [convert(element) for element in value]

    return run


def _to_map(source: DataType, target: MapType) -> Convert:
    types = source if isinstance(source, MapType) else MapType(ANY, ANY)
    to_key, to_value = _nullable(caster(types.key, target.key)), _nullable(caster(types.value, target.value))
    return lambda value: {to_key(k): to_value(v) for k, v in value.items()}


def _to_struct(source: DataType, target: StructType) -> Convert:
    types = dict(source.fields) if isinstance(source, StructType) else {}
    casts = [
        (name, _nullable(caster(types.get(name, ANY), type_)))
        for name, type_ in target.fields
        if not types or name in types
    ]
    absent = {name: None for name, _ in target.fields}
    return lambda value: {**absent, **{name: convert(read_field(value, name)) for name, convert in casts}}


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


_TEXTUAL = frozenset({"BOOLEAN", "DATE", "TIME", "TIMESTAMP", *WIDENING})  # to and from STRING
_DATES_AND_TIMES = frozenset({("TIMESTAMP", "DATE"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "TIME")})
_INTEGRAL = frozenset({("TIMESTAMP", "BIGINT"), ("INT", "TIMESTAMP"), ("BIGINT", "TIMESTAMP")})


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether values of a type can be cast to another; a single value may still not fit.

    >>> can_cast(STRING, BOOLEAN), can_cast(ArrayType(STRING), BOOLEAN)
    (True, False)
    """
    if source == target or source in (ANY, NULL) or target == ANY:
        return True
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return can_cast(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return can_cast(source.key, target.key) and can_cast(source.value, target.value)
    if isinstance(source, StructType) and isinstance(target, StructType):
        types = dict(source.fields)
        return all(can_cast(types.get(name, NULL), type_) for name, type_ in target.fields)
    pair = (source.name, target.name)
    if pair[0] in WIDENING:
        return pair[1] in {*WIDENING, "STRING"} or pair in _INTEGRAL or (target == BOOLEAN and pair[0] in INTEGERS)
    if target == STRING:
        return pair[0] in _TEXTUAL
    if source == STRING:
        return pair[1] in _TEXTUAL
    return pair in _DATES_AND_TIMES or pair in _INTEGRAL or (source == BOOLEAN and pair[1] in INTEGERS)
