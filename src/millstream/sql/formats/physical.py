"""The types of registered schemas, and the conversion of their values to columns.

Types of schemas are SQL types with the names of the schema, and a few more that SQL does not have.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from millstream.sql.catalog.sources import Column
from millstream.sql.formats.numbers import fitted, time_of_day
from millstream.sql.formats.rows import Convert
from millstream.sql.functions.decimals import CONTEXT
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
    PrimitiveType,
    SqlType,
    StructType,
)

INT8, INT16, FLOAT32 = PrimitiveType("INT8"), PrimitiveType("INT16"), PrimitiveType("FLOAT")
_SMALL = (INT8, INT16, INTEGER)
_INTEGERS = (*_SMALL, BIGINT)
_ACCEPTED: dict[SqlType, tuple[SqlType, ...]] = {
    BOOLEAN: (BOOLEAN,),
    INTEGER: _SMALL,
    BIGINT: _INTEGERS,
    DOUBLE: (FLOAT32, DOUBLE),
    STRING: (*_INTEGERS, FLOAT32, DOUBLE, BOOLEAN, STRING),
    BYTES: (BYTES,),
    DATE: (DATE, *_INTEGERS),
    TIME: (TIME, *_INTEGERS),
    TIMESTAMP: (TIMESTAMP, *_INTEGERS),
}


def sql_type(physical: SqlType | None, *, upper: bool) -> SqlType | None:
    """Returns the SQL type of a type of a schema, None if SQL has none.

    Args:
        physical: The type.
        upper: Names of fields become upper case.
    """
    if physical in (INT8, INT16):
        return INTEGER
    if physical == FLOAT32:
        return DOUBLE
    if isinstance(physical, ArrayType):
        element = sql_type(physical.element, upper=upper)
        return None if element is None else ArrayType(element)
    if isinstance(physical, MapType):
        value = sql_type(physical.value, upper=upper)
        return None if value is None else MapType(STRING, value)
    if isinstance(physical, StructType):
        fields = [(name.upper() if upper else name, sql_type(part, upper=upper)) for name, part in physical.fields]
        kept = tuple((name, part) for name, part in fields if part is not None)
        return StructType(kept) if kept else None
    return physical


def conversion(source: SqlType, target: SqlType) -> Convert | None:
    """Returns the function that converts a value of a schema's type to a column's; None if there is nothing to do.

    Raises:
        ValueError: Values of the type are not accepted.
    """
    if isinstance(target, DecimalType) and isinstance(source, DecimalType):
        return lambda value: fitted(value, target)
    if isinstance(target, ArrayType) and isinstance(source, ArrayType):
        return _array(conversion(source.element, target.element))
    if isinstance(target, MapType) and isinstance(source, MapType):
        return _map(conversion(source.key, target.key), conversion(source.value, target.value))
    if isinstance(target, StructType) and isinstance(source, StructType):
        names = [name for name, _part in target.fields]
        read = fields_conversion(source, target.fields)
        return lambda value: dict(zip(names, read(value), strict=True))
    if source not in _ACCEPTED.get(target, ()):
        raise ValueError(f"Cannot convert {source} of the schema to {target}")
    if target == STRING:
        return _TEXTS.get(source)
    return time_of_day if target == TIME else None


def fields_conversion(
    source: StructType, fields: Sequence[tuple[str, SqlType]]
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Returns the function that gives the values of fields, in order, of a record of a schema.

    A field is found by its name, then by the upper-cased names of the schema. A field that the schema does not have is
    NULL.
    """
    exact = dict(source.fields)
    upper = {name.upper(): name for name in exact}
    parts: list[tuple[str | None, Convert | None]] = []
    for name, target in fields:
        found = name if name in exact else upper.get(name)
        parts.append((found, None if found is None else _named(found, exact[found], target)))

    def read(record: Mapping[str, Any]) -> list[Any]:
        values = []
        for name, convert in parts:
            value = None if name is None else record.get(name)
            values.append(value if value is None or convert is None else convert(value))
        return values

    return read


def columns_conversion(
    source: SqlType, columns: Sequence[Column], *, wrapped: bool
) -> Callable[[Any], Sequence[Any] | None]:
    """Returns the function that gives the values of columns of a value of a schema."""
    if not wrapped:
        convert = conversion(source, columns[0].type)
        return lambda value: (value if value is None or convert is None else convert(value),)
    if not isinstance(source, StructType):
        raise ValueError(f"the schema is {source}, not a record")  # noqa: TRY004  (a schema, not an argument)
    read = fields_conversion(source, [(column.name, column.type) for column in columns])
    return lambda value: None if value is None else read(value)


def _named(name: str, source: SqlType, target: SqlType) -> Convert | None:
    try:
        return conversion(source, target)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _array(element: Convert | None) -> Convert | None:
    if element is None:
        return None
    return lambda items: [None if item is None else element(item) for item in items]


def _map(key: Convert | None, value: Convert | None) -> Convert | None:
    if key is None and value is None:
        return None
    return lambda entries: {
        k if key is None else key(k): v if v is None or value is None else value(v) for k, v in entries.items()
    }


def float_text(value: float) -> str:
    """Returns the text of ``Float.toString``: the fewest digits that a 32-bit number needs."""
    if not math.isfinite(value):
        return double_text(value)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.unpack("f", struct.pack("f", short)) == struct.unpack("f", struct.pack("f", value)):
            return double_text(short)
    return double_text(value)


_TEXTS: dict[SqlType, Convert] = {
    **dict.fromkeys(_INTEGERS, str),
    FLOAT32: float_text,
    DOUBLE: double_text,
    BOOLEAN: lambda value: "true" if value else "false",
}


def unscaled(data: bytes, scale: int) -> Decimal:
    """Returns the decimal of its unscaled value in two's complement, big-endian."""
    if len(data) > 500:
        raise ValueError("a decimal has more than 500 bytes")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, CONTEXT)


def unscaled_bytes(value: Decimal, scale: int) -> bytes:
    """Returns the unscaled value of a decimal in two's complement, big-endian."""
    number = int(value.scaleb(scale, CONTEXT))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
