"""Numbers of texts and payloads, within the limits of their types."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from millstream.sql.functions.casts import java_trim
from millstream.sql.functions.decimals import ensure_fit
from millstream.sql.types import INTEGER, DecimalType, SqlType

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")
_FLOAT = re.compile(rf"{_NUMBER.pattern}[dDfF]?|[+-]?(?:NaN|Infinity)")
_LARGEST_EXPONENT = 10_000
"""Decimals beyond it are refused: their digits could fill the memory."""

MS_PER_DAY = 86_400_000


def bits_of(type_: SqlType) -> int:
    """Returns the number of bits of an integer type, without the sign."""
    return 31 if type_ == INTEGER else 63


def parse_integer(type_: SqlType) -> Callable[[str], int]:
    """Returns the function that reads a whole number of a type, without blanks."""
    limit = 1 << bits_of(type_)

    def parse(text: str) -> int:
        value = int(text) if _INTEGER.fullmatch(text) else None
        if value is None or not -limit <= value < limit:
            raise ValueError(f"{text[:60]!r} is no {type_}")
        return value

    return parse


def parse_double(text: str) -> float:
    """Reads a DOUBLE; blanks around it do not matter, as for Java.

    >>> parse_double("-1.5E3"), parse_double(" Infinity")
    (-1500.0, inf)
    """
    text = java_trim(text)
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no DOUBLE")
    return float(text if text[-1] not in "dDfF" else text[:-1])


def parse_decimal(text: str) -> Decimal:
    """Reads a decimal with its scale, without blanks."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no DECIMAL")
    return Decimal(text)


def fitted(value: Decimal | int, type_: DecimalType) -> Decimal:
    """Returns a decimal with the scale of a type; it must not lose digits."""
    value = Decimal(value)
    if not value.is_finite() or abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"it does not fit into {type_}")
    return ensure_fit(value, type_)


def truncated(value: Any, type_: SqlType) -> int:
    """Returns the whole part of a number, and of that the low bits that a type has, as Java does."""
    if not isinstance(value, int):
        if isinstance(value, Decimal) and abs(value.adjusted()) > _LARGEST_EXPONENT and value:
            raise ValueError(f"a number is too large for {type_}")
        value = int(value)
    half = 1 << bits_of(type_)
    whole: int = value
    return whole if -half <= whole < half else ((whole + half) & (2 * half - 1)) - half


def time_of_day(value: int) -> int:
    """Checks the milliseconds of a TIME."""
    if not 0 <= value <= MS_PER_DAY:
        raise ValueError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000. "
            "The value is out of range"
        )
    return value


def from_base64(text: str) -> bytes:
    """Reads base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text[:60]!r} is not base64") from None


def to_base64(data: bytes) -> str:
    """Writes base64."""
    return base64.standard_b64encode(data).decode("ascii")
