"""Rows of ``/inserts-stream``: JSON to the values of columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from typing import Any

from millstream.errors import SqlStatementError, suggestion
from millstream.sql.catalog.sources import ROWTIME, DataSource
from millstream.sql.functions import ensure_fit, widening
from millstream.sql.statements.insert import InsertedRow, check_target, record_of
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

_BITS: dict[SqlType, int] = {INTEGER: 31, BIGINT: 63, DATE: 31, TIME: 31, TIMESTAMP: 63}
_LONGEST_NUMBER = 500


def parsed_row(line: str) -> dict[str, Any]:
    """Reads a line. Numbers with a fraction stay exact.

    Raises:
        SqlStatementError: It is not a JSON object.
    """
    try:
        row = json.loads(line, parse_float=_number(Decimal), parse_int=_number(int))
    except (ValueError, ArithmeticError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise SqlStatementError("Invalid JSON in inserts stream: each line is an object with the values by column")
    return row


def inserted(source: DataSource, row: Mapping[str, Any]) -> InsertedRow:
    """Returns the record that a row inserts.

    Raises:
        SqlStatementError: The row does not fit the source.
    """
    types: dict[str, SqlType] = {column.name: column.type for column in (*source.key, *source.value)}
    types[ROWTIME] = BIGINT
    values: dict[str, Any] = {}
    check_target(source, [column_name(given, types) for given in row])
    for given, value in row.items():
        name = column_name(given, types)
        if name in values:
            raise SqlStatementError(f"Column `{name}` is listed twice.")
        if name not in types:
            raise SqlStatementError(f"Column name `{name}` does not exist.", hint=suggestion(name, types))
        values[name] = _value(value, types[name], f"`{name}`")
    if (values.get(ROWTIME) or 0) < 0:
        raise SqlStatementError("the value of `ROWTIME` is negative")
    return record_of(source, values)


def column_name(given: str, known: Container[str]) -> str:
    """Returns a name as the dialect reads it: in upper case, unless it is quoted or known as it is."""
    for quote in '`"':
        if len(given) > 1 and given[0] == quote == given[-1]:
            return given[1:-1].replace(quote * 2, quote)
    return given if given in known else given.upper()


def _number(make: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        if len(text) > _LONGEST_NUMBER:
            raise ValueError("the number is too long")
        return make(text)

    return convert


def _value(value: Any, type_: SqlType, place: str) -> Any:
    """Returns a value of JSON as a value of a type; ``place`` names it in messages."""
    if value is None:
        return None
    match type_, value:
        case ArrayType(), list():
            return [_value(item, type_.element, place) for item in value]
        case MapType(), dict() if type_.key == STRING:
            return {key: _value(item, type_.value, place) for key, item in value.items()}
        case StructType(), dict():
            return _struct(value, type_, place)
    try:
        return _plain(value, type_)
    except (ValueError, ArithmeticError) as error:
        detail = str(error)
    raise SqlStatementError(f"the value of {place} is no {type_}{detail and f': {detail}'}")


def _struct(value: dict[str, Any], type_: StructType, place: str) -> dict[str, Any]:
    types = dict(type_.fields)
    named = {column_name(name, types): item for name, item in value.items()}
    unknown = named.keys() - types.keys()
    if unknown:
        raise SqlStatementError(f"the value of {place} has no field `{min(unknown)}`", hint=f"its type is {type_}")
    return {name: _value(named.get(name), part, f"{place}->{name}") for name, part in type_.fields}


def _plain(value: Any, type_: SqlType) -> Any:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if isinstance(type_, DecimalType) and (is_number or (isinstance(value, str) and len(value) < _LONGEST_NUMBER)):
        exact = Decimal(value)
        if abs(exact.adjusted()) > _LONGEST_NUMBER:
            raise ValueError("it has too many digits")
        return ensure_fit(exact, type_)
    if type_ == DOUBLE and (is_number or value in ("NaN", "Infinity", "-Infinity")):
        return float(value)
    if type_ in _BITS and isinstance(value, int) and is_number:
        if not -(1 << _BITS[type_]) <= value < 1 << _BITS[type_]:
            raise ValueError("it is out of range")
        return value
    if isinstance(value, bool) and type_ == BOOLEAN:
        return value
    if isinstance(value, str) and type_ in (STRING, BYTES, DATE, TIME, TIMESTAMP):
        convert = widening(STRING, type_)
        value.encode()  # a lone surrogate cannot be written
        return value if convert is None else convert(value)
    raise ValueError
