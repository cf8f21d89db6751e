"""JSON as ksqlDB reads and writes it: lenient on reading, every column and Java's numbers on writing."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from millstream.sql.catalog.sources import Column
from millstream.sql.formats.numbers import (
    fitted,
    from_base64,
    parse_decimal,
    parse_double,
    parse_integer,
    time_of_day,
    truncated,
)
from millstream.sql.formats.rows import Convert, Values
from millstream.sql.functions.java.json import json_text
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
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

_ABSENT = object()
_EXACT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=Decimal)
_FAST: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_NAMES = {bool: "a boolean", str: "a string", list: "an array", dict: "an object", type(None): "null"}

Encode = Callable[[Values], bytes | None]
Decode = Callable[[bytes], Values | None]


# ----- writing -------------------------------------------------------------------------------------------------------


def _raw_double(value: float) -> Any:
    text = double_text(value)
    return msgspec.Raw(text.encode()) if math.isfinite(value) else text


def _raw_decimal(value: Decimal) -> Any:
    return msgspec.Raw(format(value, "f").encode())


def json_value(type_: SqlType) -> Convert | None:
    """Returns the function that prepares a value of a type for msgspec; None if it needs none."""
    if type_ == DOUBLE:
        return lambda value: None if value is None else _raw_double(value)
    if isinstance(type_, DecimalType):
        return lambda value: None if value is None else _raw_decimal(value)
    if isinstance(type_, ArrayType):
        element = json_value(type_.element)
        if element is None:
            return None
        return lambda items: None if items is None else [element(item) for item in items]
    if isinstance(type_, MapType):
        return _map_value(json_value(type_.value))
    if isinstance(type_, StructType):
        fields = [(name, json_value(part)) for name, part in type_.fields]
        return lambda struct: (
            None
            if struct is None
            else {name: struct[name] if part is None else part(struct[name]) for name, part in fields}
        )
    return None


def _map_value(value: Convert | None) -> Convert:
    def convert(entries: dict[str, Any] | None) -> Any:
        if entries is None:
            return None
        if None in entries:  # JSON has no null keys; Java writes the text
            entries = {"null" if key is None else key: item for key, item in entries.items()}
        return entries if value is None else {key: value(item) for key, item in entries.items()}

    return convert


def json_encoder(columns: Sequence[Column], *, wrapped: bool) -> Encode:
    """Returns the function that writes the values of columns."""
    write = msgspec.json.encode
    if not wrapped:
        convert = json_value(columns[0].type)
        return lambda values: None if values[0] is None else write(values[0] if convert is None else convert(values[0]))
    names = [column.name for column in columns]
    converts = [json_value(column.type) for column in columns]
    if not any(converts):
        return lambda values: write(dict(zip(names, values, strict=True)))
    parts = list(zip(names, converts, strict=True))
    return lambda values: write(
        {name: value if part is None else part(value) for (name, part), value in zip(parts, values, strict=True)}
    )


# ----- reading -------------------------------------------------------------------------------------------------------


def parse(data: bytes, decoder: msgspec.json.Decoder[Any] = _EXACT) -> Any:
    """Reads JSON. Numbers with a fraction or exponent become exact decimals, unless the decoder is another one."""
    try:
        return decoder.decode(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if decoder is not _EXACT:  # a number beyond the range of a double
            return parse(data)
        raise ValueError(str(error)) from None


def _wrong(value: Any, type_: SqlType) -> ValueError:
    return ValueError(f"Can't convert type. sourceType: {_NAMES.get(type(value), 'a number')}, requiredType: {type_}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _integer(type_: SqlType) -> Convert:
    from_text = parse_integer(type_)
    low, high = (-(1 << 31), 1 << 31) if type_ == INTEGER else (-(1 << 63), 1 << 63)

    def read(value: Any) -> Any:
        if type(value) is int and low <= value < high:
            return value
        if value is None:
            return None
        if isinstance(value, str):
            return from_text(value)
        if _is_number(value):
            return truncated(value, type_)
        raise _wrong(value, type_)

    return read


def _double(value: Any) -> Any:
    if type(value) is float or value is None:
        return value
    if isinstance(value, str):
        return parse_double(value)
    if _is_number(value):
        try:
            return float(value)
        except OverflowError:  # an integer; Java makes it infinite
            return math.inf if value > 0 else -math.inf
    raise _wrong(value, DOUBLE)


def _boolean(value: Any) -> Any:
    if value is None or type(value) is bool:
        return value
    raise _wrong(value, BOOLEAN)


def _string(value: Any) -> Any:
    if type(value) is str or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json_text(value)
    if isinstance(value, list):
        return f"[{', '.join('null' if item is None else _string(item) for item in value)}]"
    return str(value)


def _bytes(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return from_base64(value)
    raise _wrong(value, BYTES)


def _decimal(type_: DecimalType) -> Convert:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return fitted(parse_decimal(value), type_)
        if _is_number(value):
            return fitted(value, type_)
        raise _wrong(value, type_)

    return read


def _time(value: Any) -> Any:
    number = _integer(BIGINT)(value)
    return None if number is None else time_of_day(number)


_READERS: dict[SqlType, Convert] = {
    BOOLEAN: _boolean,
    INTEGER: _integer(INTEGER),
    BIGINT: _integer(BIGINT),
    DOUBLE: _double,
    STRING: _string,
    BYTES: _bytes,
    DATE: _integer(INTEGER),
    TIME: _time,
    TIMESTAMP: _integer(BIGINT),
}


def json_reader(type_: SqlType) -> Convert:
    """Returns the function that makes a value of a type from parsed JSON."""
    if type_ in _READERS:
        return _READERS[type_]
    if isinstance(type_, DecimalType):
        return _decimal(type_)
    if isinstance(type_, ArrayType):
        element = json_reader(type_.element)

        def read_array(value: Any) -> Any:
            if value is None:
                return None
            if type(value) is not list:
                raise _wrong(value, type_)
            return [element(item) for item in value]

        return read_array
    if isinstance(type_, MapType):
        item_reader = json_reader(type_.value)

        def read_map(value: Any) -> Any:
            if value is None:
                return None
            if type(value) is not dict:
                raise _wrong(value, type_)
            return {key: item_reader(item) for key, item in value.items()}

        return read_map
    assert isinstance(type_, StructType)
    names = [name for name, _part in type_.fields]
    read_fields = fields_reader(type_.fields, type_)
    return lambda value: None if value is None else dict(zip(names, read_fields(value), strict=True))


def fields_reader(fields: Sequence[tuple[str, SqlType]], type_: SqlType | None = None) -> Callable[[Any], list[Any]]:
    """Returns the function that gives the values of fields of an object, in order.

    A field is found by its name, then by the upper-cased names of the object. Others are ignored.
    """
    readers = [(name, json_reader(part)) for name, part in fields]

    def read(value: Any) -> list[Any]:
        if type(value) is not dict:
            raise _wrong(value, type_ or StructType(tuple(fields)))
        upper: dict[str, Any] | None = None
        result = []
        for name, reader in readers:
            item = value.get(name, _ABSENT)
            if item is _ABSENT:
                if upper is None:
                    upper = {key.upper(): item for key, item in value.items()}
                item = upper.get(name)
            result.append(None if item is None else reader(item))
        return result

    return read


def json_decoder(columns: Sequence[Column], *, wrapped: bool, skip: int = 0) -> Decode:
    """Returns the function that reads the values of columns; it returns None for a null row.

    Args:
        columns: The columns.
        wrapped: They are the members of an object.
        skip: The number of bytes before the payload.
    """
    types = [part for column in columns for part in column.type.walk()]
    # Doubles take fractions as they are; all else needs their exact digits.
    exact = any(type_ == STRING or isinstance(type_, DecimalType) for type_ in types)
    read_json = functools.partial(parse, decoder=_EXACT if exact else _FAST)
    if not wrapped:
        read_value = json_reader(columns[0].type)
        return lambda data: (read_value(read_json(data[skip:])),)
    read_fields = fields_reader([(column.name, column.type) for column in columns])

    def decode(data: bytes) -> Values | None:
        value = read_json(data[skip:] if skip else data)
        return None if value is None else read_fields(value)

    return decode
