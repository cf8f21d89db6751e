"""Writes values in the text format of COPY."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from millstream.connect.postgres.sink.columns import Column, Family
from millstream.connect.postgres.sink.refusals import Refusal

Encode: TypeAlias = Callable[[Any], str]

NULL = "\\N"

_SPECIAL = re.compile("[\\\\\t\n\r\0]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ZONE = re.compile(r":\d\d(\.\d+)?[+-]\d\d(:?\d\d)?$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_exact = msgspec.json.Encoder(decimal_format="number")


def encode_column(column: Column, values: Sequence[Any], refused: dict[int, str]) -> list[str]:
    """Returns the values of a column in the format of COPY, and adds the reasons of those that have no such form.

    Args:
        column: The column, which accepts the values.
        values: The values.
        refused: The reasons, by the place of the value. The method adds to them.
    """
    encode = _encoder(column)
    try:
        return [NULL if value is None else encode(value) for value in values]
    except (Refusal, ValueError, TypeError, OverflowError, RecursionError):
        return [_encode_or_refuse(column, encode, place, value, refused) for place, value in enumerate(values)]


def _encode_or_refuse(column: Column, encode: Encode, place: int, value: Any, refused: dict[int, str]) -> str:
    if value is None:
        return NULL
    try:
        return encode(value)
    except Refusal as error:
        reason = str(error)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        reason = f"the value cannot be written as {column.declared}: {error}"
    refused[place] = f"column {column.name!r}: {reason}"
    return NULL


def escape(text: str) -> str:
    r"""Returns text with the characters escaped that separate columns and rows.

    >>> escape("a\tb\\N")
    'a\\tb\\\\N'
    """
    if _SPECIAL.search(text) is None:
        return text
    if "\0" in text:
        raise Refusal("the text contains the character NUL, which PostgreSQL cannot store in text")
    return text.translate(_ESCAPES)


def _encoder(column: Column) -> Encode:
    if column.family == "time":
        return lambda value: escape(_time_text(column.base, value))
    return _ENCODERS[column.family]


def _integer(value: Any) -> str:
    return str(value) if type(value) is int else str(int(value))


def _number(value: Any) -> str:
    if type(value) is float:
        return repr(value)
    return "NaN" if isinstance(value, Decimal) and value.is_nan() else str(value)


def _bytes(value: Any) -> str:
    return f"\\\\x{bytes(value).hex()}"


def _json(value: Any) -> str:
    return escape(_json_text(value))


def _json_text(value: Any) -> str:
    if isinstance(value, str):  # a text is taken as JSON, as sources write columns of JSON
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except TypeError:
        # Decimal numbers, dates, … inside: msgspec writes them exactly. It would write NaN as null: refuse it first.
        json.dumps(value, allow_nan=False, default=str)
        return _exact.encode(value).decode()


def _array(value: Any) -> str:
    return escape(_array_text(value))


def _array_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return f"{{{','.join(map(_array_text, value))}}}"
    if isinstance(value, bytes | bytearray | memoryview):
        text = f"\\x{bytes(value).hex()}"
    elif isinstance(value, dict):
        text = _json_text(value)
    elif isinstance(value, float | Decimal) and not isinstance(value, bool):
        text = _number(value)
    else:
        text = str(value)
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _time_text(base: str, value: Any) -> str:
    if isinstance(value, bool):
        raise Refusal("the value is a boolean")
    if isinstance(value, int):
        moment = _EPOCH + (timedelta(days=value) if base == "date" else timedelta(milliseconds=value))
        return _time_text(base, moment.date() if base == "date" else moment)
    if isinstance(value, str):
        if base == "timestamp" and _ZONE.search(value):  # the server would ignore the zone
            return _time_text(base, datetime.fromisoformat(value))
        return value
    if isinstance(value, datetime):
        if base == "timestamp" and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return str(value.isoformat())
    if isinstance(value, date | time):
        return value.isoformat()
    assert isinstance(value, timedelta)  # `accepts` has refused all other classes
    microseconds = value // timedelta(microseconds=1)
    sign = "-" if microseconds < 0 else ""
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    return f"{sign}{seconds}.{rest:06} seconds"


_ENCODERS: dict[Family, Encode] = {
    "boolean": lambda value: "t" if value else "f",
    "integer": _integer,
    "float": _number,
    "numeric": _number,
    "text": lambda value: escape(value if type(value) is str else str(value)),
    "bytes": _bytes,
    "json": _json,
    "array": _array,
    "other": lambda value: escape(str(value)),
}


class CopyLines(io.RawIOBase):
    """A file of lines, from which COPY reads. It holds no second copy of the lines."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        super().__init__()
        self._lines = iter(lines)
        self._line = b""
        self._start = 0

    def read(self, size: int = -1, /) -> bytes:
        """Returns at most a number of bytes; none at the end."""
        parts: list[bytes] = []
        length = 0
        while length < size:
            if self._start == len(self._line):
                line = next(self._lines, None)
                if line is None:
                    break
                self._line, self._start = line, 0
            part = self._line[self._start : self._start + size - length]
            self._start += len(part)
            length += len(part)
            parts.append(part)
        return b"".join(parts)
