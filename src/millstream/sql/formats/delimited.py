"""DELIMITED: one line of CSV, with the quoting rules of Apache commons-csv 1.4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.sql.catalog.sources import Column
from millstream.sql.formats.numbers import (
    fitted,
    from_base64,
    parse_decimal,
    parse_double,
    parse_integer,
    time_of_day,
    to_base64,
)
from millstream.sql.formats.rows import Convert, Values
from millstream.sql.functions.java.text import double_text
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
    DecimalType,
    SqlType,
)

_BLANK, _COMMENT = " ", "#"
_READERS: dict[SqlType, Convert] = {
    BOOLEAN: lambda text: text.lower() == "true",
    INTEGER: parse_integer(INTEGER),
    BIGINT: parse_integer(BIGINT),
    DOUBLE: parse_double,
    STRING: str,
    BYTES: from_base64,
    DATE: parse_integer(INTEGER),
    TIME: lambda text: time_of_day(parse_integer(BIGINT)(text)),
    TIMESTAMP: parse_integer(BIGINT),
}


def _decimal_reader(type_: DecimalType) -> Convert:
    return lambda text: fitted(parse_decimal(text), type_)


def _text_writer(type_: SqlType) -> Callable[[Any], str]:
    if type_ == BOOLEAN:
        return lambda value: "true" if value else "false"
    if type_ == DOUBLE:
        return double_text
    if type_ == BYTES:
        return to_base64
    if isinstance(type_, DecimalType):
        return lambda value: format(value, "f")
    return str


def needs_quotes(text: str, delimiter: str, *, first: bool) -> bool:
    """Whether a field is quoted.

    >>> (
    ...     needs_quotes("-10", ",", first=True),
    ...     needs_quotes("-10", ",", first=False),
    ...     needs_quotes("a ", ",", first=False),
    ... )
    (True, False, True)
    """
    if not text:
        return first
    start = text[0]
    if first and not (start.isascii() and start.isalnum()):
        return True
    return start <= _COMMENT or text[-1] <= _BLANK or delimiter in text or '"' in text or "\n" in text or "\r" in text


def delimited_encoder(columns: Sequence[Column], delimiter: str) -> Callable[[Values], bytes]:
    """Returns the function that writes a line."""
    writers = [_text_writer(column.type) for column in columns]

    def encode(values: Values) -> bytes:
        fields = []
        for write, value in zip(writers, values, strict=True):
            if value is None:
                fields.append("")
                continue
            text = write(value)
            if needs_quotes(text, delimiter, first=not fields):
                text = '"' + text.replace('"', '""') + '"'
            fields.append(text)
        return delimiter.join(fields).encode()

    return encode


def delimited_decoder(columns: Sequence[Column], delimiter: str) -> Callable[[bytes], Values]:
    """Returns the function that reads a line. An empty field is NULL."""
    readers = [
        _decimal_reader(column.type) if isinstance(column.type, DecimalType) else _READERS[column.type]
        for column in columns
    ]
    count = len(readers)

    def decode(data: bytes) -> Values:
        text = data.decode("utf-8", "replace")
        plain = text and '"' not in text and "\n" not in text and "\r" not in text
        fields = text.split(delimiter) if plain else first_record(text, delimiter)
        if not fields:
            raise ValueError("No fields in record")
        if len(fields) != count:
            raise ValueError(f"Unexpected field count, csvFields:{len(fields)} schemaFields:{count}")
        return [read(field) if field else None for read, field in zip(readers, fields, strict=True)]

    return decode


def first_record(text: str, delimiter: str) -> list[str]:
    r"""Returns the fields of the first line that is not empty; all lines must be well formed.

    >>> first_record('\n"a ""b""\n",c\nd', ",")
    ['a "b"\n', 'c']
    """
    first: list[str] | None = None
    fields: list[str] = []
    at, end = 0, len(text)
    while at < end:
        if not fields and text[at] in "\r\n":
            at += 1
            continue
        field, at = _quoted(text, at, delimiter) if text[at] == '"' else _simple(text, at, delimiter)
        fields.append(field)
        if at < end and text[at] == delimiter:
            at += 1
            if at < end and text[at] not in "\r\n":
                continue
            fields.append("")  # the line ends behind a delimiter
        if first is None:
            first = fields
        fields = []
        at += 1
    return first or []


def _simple(text: str, at: int, delimiter: str) -> tuple[str, int]:
    start = at
    while at < len(text) and text[at] != delimiter and text[at] not in "\r\n":
        at += 1
    return text[start:at], at


def _quoted(text: str, at: int, delimiter: str) -> tuple[str, int]:
    parts = []
    at += 1
    while True:
        close = text.find('"', at)
        if close < 0:
            raise ValueError("EOF reached before encapsulated token finished")
        parts.append(text[at:close])
        at = close + 1
        if text[at : at + 1] != '"':
            break
        parts.append('"')
        at += 1
    while at < len(text) and text[at] != delimiter and text[at] not in "\r\n":
        if not text[at].isspace():
            raise ValueError("invalid char between encapsulated token and delimiter")
        at += 1
    return "".join(parts), at
