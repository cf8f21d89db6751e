"""CAST: the function that brings values of one type to another."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.decimals import fit, fit_double
from millstream.sql.functions.java.calendar import MS_PER_DAY, checked_days
from millstream.sql.functions.java.text import text_of
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

Converter = Callable[[Any], Any]
"""A function of a value that is not None."""


def wrap_int(value: int) -> int:
    """Keeps the low 32 bits, as Java does.

    >>> wrap_int(2**31), wrap_int(-5)
    (-2147483648, -5)
    """
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def wrap_long(value: int) -> int:
    """Keeps the low 64 bits, as Java does."""
    return (value + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def _saturate(limit: int) -> Converter:
    def convert(value: float) -> int:
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return limit if value > 0 else -limit - 1
        return max(-limit - 1, min(limit, int(value)))

    return convert


# ----- text to values ------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,10})?")
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)
_CLOCK = "00:00:00.000"
_FULL_CLOCK = re.compile(r"(\d{2}):(\d{2}):(\d{2})\.(\d{3})", re.ASCII)
_ZONED = re.compile(r"([^+-]*)([+-].*)?", re.DOTALL)
_OFFSET = re.compile(r"Z?|[+-]\d{1,2}|[+-]\d{2}:?\d{2}(:?\d{2})?", re.ASCII)


def java_trim(text: str) -> str:
    """Strips what Java's ``trim`` strips: characters up to the space."""
    return text.strip("".join(map(chr, range(33))))


def _to_integer(type_: SqlType, bits: int) -> Converter:
    def convert(text: str) -> int:
        trimmed = java_trim(text)
        # Decimal digits beyond these cannot fit, and int() of long texts takes quadratic time.
        value = int(trimmed) if _INTEGER.fullmatch(trimmed) and len(trimmed) < 100 else None
        if value is None or not -(1 << bits) <= value < 1 << bits:
            raise ValueError(f"{text[:100]!r} is no {type_}")
        return value

    return convert


def parse_number(text: str) -> Decimal:
    """Reads a number as Java's BigDecimal does."""
    trimmed = java_trim(text)
    if not _NUMBER.fullmatch(trimmed):
        raise ValueError(f"{text[:100]!r} is no number")
    return Decimal(trimmed)


def _to_double(text: str) -> float:
    value = float(parse_number(text))
    if math.isinf(value):
        raise ValueError(f"{text[:100]!r} is beyond the range of DOUBLE")
    return value


def is_true(text: str) -> bool:
    """Whether text is a non-empty prefix of ``true`` or ``yes``.

    >>> is_true(" Tr "), is_true("yes"), is_true(""), is_true("1")
    (True, True, False, False)
    """
    word = java_trim(text).lower()
    return bool(word) and ("true".startswith(word) or "yes".startswith(word))


def is_false(text: str) -> bool:
    """Whether text is a non-empty prefix of ``false`` or ``no``."""
    word = java_trim(text).lower()
    return bool(word) and ("false".startswith(word) or "no".startswith(word))


def parse_date(text: str) -> int:
    """Reads ``yyyy[-MM[-dd]]`` into days.

    >>> parse_date("1970-02"), parse_date("1971")
    (31, 365)
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"Required format is: \"yyyy[-MM[-dd]]\". Failed to parse {text[:100]!r} as a date, e.g. '2020-05-01'"
        )
    year, month, day = match.groups("1")
    return checked_days(int(year), int(month), int(day))


def _clock(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> int:
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"there is no time {hours:02d}:{minutes:02d}:{seconds:02d}")
    milliseconds = int((fraction or "0").ljust(3, "0")[:3])
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def parse_time(text: str) -> int:
    """Reads an ISO time into milliseconds of the day.

    >>> parse_time("10:15"), parse_time("00:00:01.5")
    (36900000, 1500)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f'Required format is: "HH:mm[:ss[.SSS]]". Failed to parse {text[:100]!r} as a time')
    return _clock(*match.groups())


def parse_timestamp(text: str) -> int:
    """Reads ``yyyy-MM-ddTHH:mm:ss.SSS`` or a prefix, with an optional zone after the time, into milliseconds.

    >>> parse_timestamp("1970"), parse_timestamp("1970-01-01T00:00:01"), parse_timestamp("1970-01-01T01:00+0100")
    (0, 1000, 0)
    """
    date, separator, rest = text.partition("T")
    zoned = _ZONED.fullmatch(rest)
    assert zoned is not None
    clock, zone = zoned[1].removesuffix("Z"), zoned[2] or "Z"
    # A time is completed from its pattern: 9 means 90 there, which is no hour.
    match = _FULL_CLOCK.fullmatch(clock + _CLOCK[len(clock) :])
    day = _DATE.fullmatch(date)
    if match is None or day is None or (separator and day[3] is None) or not _OFFSET.fullmatch(zone):
        raise ValueError(
            f"Failed to parse timestamp '{text[:100]}': Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", "
            "with an optional numeric 4-digit timezone, for example: '2020-05-26T23.59.58.000' or with tz: "
            "'2020-05-26T23.59.58.000+0200'. Partials are also supported, for example '2020-05-26'"
        )
    return parse_date(date) * MS_PER_DAY + _clock(*match.groups()) - zone_offset(zone)


def zone_offset(zone: str) -> int:
    """Returns the milliseconds of ``Z``, ``±h``, ``±hh``, ``±hhmm``, ``±hh:mm`` and these with seconds."""
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    digits = (digits if len(digits) > 1 else f"0{digits}").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > 18 * 3600:
        raise ValueError(f"{zone} is not an offset of a time zone")
    return (-1 if zone[0] == "-" else 1) * ((hours * 60 + minutes) * 60 + seconds) * 1000


def parse_base64(text: str) -> bytes:
    """Reads base64, with or without padding."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:100]!r} is not base64: {error}") from None


# ----- the matrix ----------------------------------------------------------------------------------------------------

_IDENTITY: Converter = lambda value: value  # noqa: E731  (a constant of the table below)

_SIMPLE: dict[tuple[SqlType, SqlType], Converter | None] = {
    (INTEGER, BIGINT): None,
    (INTEGER, DOUBLE): float,
    (BIGINT, INTEGER): wrap_int,
    (BIGINT, DOUBLE): float,
    (DOUBLE, INTEGER): _saturate(2**31 - 1),
    (DOUBLE, BIGINT): _saturate(2**63 - 1),
    (STRING, BOOLEAN): is_true,
    (STRING, INTEGER): _to_integer(INTEGER, 31),
    (STRING, BIGINT): _to_integer(BIGINT, 63),
    (STRING, DOUBLE): _to_double,
    (STRING, DATE): lambda text: parse_date(java_trim(text)),
    (STRING, TIME): lambda text: parse_time(java_trim(text)),
    (STRING, TIMESTAMP): lambda text: parse_timestamp(java_trim(text)),
    (STRING, BYTES): lambda text: parse_base64(java_trim(text)),
    (TIMESTAMP, DATE): lambda value: value // MS_PER_DAY,
    (TIMESTAMP, TIME): lambda value: value % MS_PER_DAY,
    (DATE, TIMESTAMP): lambda value: value * MS_PER_DAY,
    **{(type_, STRING): text_of(type_) for type_ in (BOOLEAN, INTEGER, BIGINT, DOUBLE, DATE, TIME, TIMESTAMP)},
}

_FROM_DECIMAL: dict[SqlType, Converter] = {
    INTEGER: lambda value: wrap_int(int(value)),
    BIGINT: lambda value: wrap_long(int(value)),
    DOUBLE: float,
    STRING: text_of(DecimalType(1, 0)),
}


def cast(source: SqlType, target: SqlType) -> Converter | None:
    """Returns the function that CAST(x AS target) applies to values that are not None; None if it changes nothing.

    Raises:
        SqlStatementError: The dialect has no such cast.
    """
    if source == target:
        return None
    if (source, target) in _SIMPLE:
        return _SIMPLE[source, target]
    if isinstance(target, DecimalType):
        converter = _to_decimal(source, target)
    elif isinstance(source, DecimalType):
        converter = _FROM_DECIMAL.get(target)
    else:
        return _composite(source, target)
    if converter is None:
        raise unsupported(source, target)
    return converter


def unsupported(source: SqlType, target: SqlType) -> SqlStatementError:
    """Returns the error for a cast that the dialect does not have."""
    return SqlStatementError(f"Cast of {source} to {target} is not supported")


def _to_decimal(source: SqlType, target: DecimalType) -> Converter | None:
    if source in {INTEGER, BIGINT}:
        return lambda value: fit(Decimal(value), target)
    if source == DOUBLE:
        return lambda value: fit_double(value, target)
    if source == STRING:
        return lambda value: fit(parse_number(value), target)
    if isinstance(source, DecimalType):
        return lambda value: fit(value, target)
    return None


def _composite(source: SqlType, target: SqlType) -> Converter | None:
    if target == STRING and isinstance(source, ArrayType | MapType | StructType):
        return text_of(source)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        element = _nullable(source.element, target.element)
        return None if element is None else lambda items: [element(item) for item in items]
    if isinstance(source, MapType) and isinstance(target, MapType):
        key, value = _nullable(source.key, target.key), _nullable(source.value, target.value)
        if key is None and value is None:
            return None
        to_key, to_value = key or _IDENTITY, value or _IDENTITY
        return lambda entries: {to_key(k): to_value(v) for k, v in entries.items()}
    if isinstance(source, StructType) and isinstance(target, StructType):
        return _struct(source, target)
    raise unsupported(source, target)


def _struct(source: StructType, target: StructType) -> Converter:
    present = dict(source.fields)
    common = [(name, _nullable(present[name], type_) or _IDENTITY) for name, type_ in target.fields if name in present]
    absent = {name: None for name, _type in target.fields}
    return lambda struct: {**absent, **{name: convert(struct.get(name)) for name, convert in common}}


def _nullable(source: SqlType, target: SqlType) -> Converter | None:
    convert = cast(source, target)
    return None if convert is None else lambda value: None if value is None else convert(value)
