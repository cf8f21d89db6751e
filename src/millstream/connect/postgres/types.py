"""The types of PostgreSQL: their schemas, with Debezium's names, and how values are converted from the text format."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from millstream.connect.postgres import types_text, types_time
from millstream.connect.schema import (
    BOOLEAN,
    BYTES,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    ConnectSchema,
    array_of,
    struct_of,
)

CONNECT = "org.apache.kafka.connect.data."
DEBEZIUM_TIME = "io.debezium.time."
DEBEZIUM_DATA = "io.debezium.data."

_HEADER = 4
"""The length that PostgreSQL adds to the type modifiers of some types."""


@dataclass(frozen=True, slots=True)
class TypeOptions:
    """How values are converted; the values of the settings whose names are similar."""

    decimals: str = "precise"
    times: str = "adaptive"
    binary: str = "bytes"
    intervals: str = "numeric"
    hstore: str = "map"
    money_digits: int = 2
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class PgType:
    """A type in the catalog of a database.

    Attributes:
        oid: Its number.
        schema: The name of its schema.
        name: Its name.
        kind: ``typtype`` of ``pg_type``: b for a base type, c composite, d domain, e enum, r range, …
        element: The number of the type of the items, for arrays.
        delimiter: What separates the items in arrays of this type.
        base: The number of the base type of a domain.
        modifier: The type modifier of the base type of a domain.
        dimensions: The number of dimensions of a domain over an array.
        labels: The labels of an enum.
    """

    oid: int
    schema: str
    name: str
    kind: str = "b"
    element: int = 0
    delimiter: str = ","
    base: int = 0
    modifier: int = -1
    dimensions: int = 0
    labels: tuple[str, ...] = ()


class ColumnType(NamedTuple):
    """The type of a column.

    Attributes:
        schema: The schema of values that are not null.
        convert: Converts a value from the text format.
        unavailable: In place of a value that the server did not send.
    """

    schema: ConnectSchema
    convert: Callable[[str], Any]
    unavailable: Any = None


class ColumnTypes:
    """The types of columns in a database.

    Args:
        types: The types of the catalog, by number. It may be filled later.
        options: How values are converted.
    """

    def __init__(self, types: Mapping[int, PgType], options: TypeOptions) -> None:
        self._types = types
        self._options = options

    def of(self, oid: int, modifier: int, dimensions: int = 0) -> ColumnType:
        """Returns the type of a column.

        Args:
            oid: The number of the type.
            modifier: The type modifier: the precision, the length, …; -1 for none.
            dimensions: The dimensions of an array, as the column declares them.
        """
        kind = self._types.get(oid)
        if kind is None:
            return ColumnType(STRING, str, self._options.placeholder)
        if kind.kind == "d":
            own = modifier if kind.modifier < 0 else kind.modifier
            return self.of(kind.base, own, dimensions or kind.dimensions)
        if kind.kind == "b" and kind.element and kind.name.startswith("_"):
            return self._array(kind, modifier, dimensions or 1)
        if kind.kind == "e":
            schema = ConnectSchema(
                "string", name=DEBEZIUM_DATA + "Enum", version=1, parameters={"allowed": ",".join(kind.labels)}
            )
            return ColumnType(schema, str, self._options.placeholder)
        if kind.name == "hstore":
            return self._hstore()
        if kind.name == "ltree":
            return ColumnType(_text("Ltree"), str, self._options.placeholder)
        maker = _MAKERS.get(kind.name) if kind.schema == "pg_catalog" else None
        if maker is not None:
            return maker(modifier, self._options)
        return ColumnType(STRING, str, self._options.placeholder)

    def _array(self, kind: PgType, modifier: int, dimensions: int) -> ColumnType:
        element = self._types.get(kind.element)
        item = self.of(kind.element, modifier)
        schema = item.schema
        for _ in range(dimensions):
            schema = array_of(schema.as_optional())
        delimiter = "," if element is None else element.delimiter

        def convert(text: str) -> list[Any]:
            return types_text.array(text, dimensions, delimiter, item.convert)

        return ColumnType(schema, convert, self._unavailable_array(item, dimensions))

    def _unavailable_array(self, item: ColumnType, dimensions: int) -> Any:
        """Returns the placeholder of an array: as its only item, or as the numbers of its characters."""
        placeholder: Any = None
        if item.unavailable is not None:
            placeholder = [item.unavailable]
        elif item.schema.type in {"int16", "int32", "int64"}:
            placeholder = list(self._options.placeholder.encode())
        elif item.schema.type in {"float32", "float64"}:
            placeholder = list(map(float, self._options.placeholder.encode()))
        for _ in range(dimensions - 1 if placeholder is not None else 0):
            placeholder = [placeholder]
        return placeholder

    def _hstore(self) -> ColumnType:
        placeholder = self._options.placeholder
        if self._options.hstore == "json":

            def as_json(text: str) -> str:
                return json.dumps(types_text.hstore(text), ensure_ascii=False, separators=(",", ":"))

            return ColumnType(_text("Json"), as_json, placeholder)
        schema = ConnectSchema("map", keys=STRING, items=STRING.as_optional())
        return ColumnType(schema, types_text.hstore, {placeholder: placeholder})


def _text(name: str) -> ConnectSchema:
    return ConnectSchema("string", name=DEBEZIUM_DATA + name, version=1)


def _time(type: Any, name: str) -> ConnectSchema:
    return ConnectSchema(type, name=name, version=1)


Maker = Callable[[int, TypeOptions], ColumnType]


def _plain(schema: ConnectSchema, convert: Callable[[str], Any]) -> Maker:
    return lambda _modifier, _options: ColumnType(schema, convert)


def _large(schema: ConnectSchema) -> Maker:
    return lambda _modifier, options: ColumnType(schema, str, options.placeholder)


def _numeric(modifier: int, options: TypeOptions) -> ColumnType:
    if options.decimals == "string":
        return ColumnType(STRING, str, options.placeholder)
    if options.decimals == "double":
        return ColumnType(FLOAT64, float)
    if modifier < _HEADER:
        fields = {"scale": INT32, "value": BYTES}
        schema = replace(struct_of(DEBEZIUM_DATA + "VariableScaleDecimal", fields), version=1)
        return ColumnType(schema, types_text.variable_scale)
    precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
    if scale > 1023:  # negative since version 15: numeric(3, -2) rounds to hundreds
        scale -= 2048
    parameters = {"scale": str(max(scale, 0)), "connect.decimal.precision": str(max(precision, precision - scale))}
    return ColumnType(ConnectSchema("bytes", name=DECIMAL, version=1, parameters=parameters), types_text.decimal)


def _money(_modifier: int, options: TypeOptions) -> ColumnType:
    if options.decimals == "string":
        return ColumnType(STRING, lambda text: str(types_text.money(text)))
    if options.decimals == "double":
        return ColumnType(FLOAT64, lambda text: float(types_text.money(text)))
    parameters = {"scale": str(options.money_digits)}
    return ColumnType(ConnectSchema("bytes", name=DECIMAL, version=1, parameters=parameters), types_text.money)


def _bytea(_modifier: int, options: TypeOptions) -> ColumnType:
    if options.binary == "bytes":
        return ColumnType(BYTES, types_text.binary, options.placeholder.encode())
    encode = _ENCODINGS[options.binary]
    return ColumnType(STRING, lambda text: encode(types_text.binary(text)), encode(options.placeholder.encode()))


_ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
    "hex": bytes.hex,
}


def _date(_modifier: int, options: TypeOptions) -> ColumnType:
    name = CONNECT if options.times == "connect" else DEBEZIUM_TIME
    return ColumnType(_time("int32", name + "Date"), types_time.days)


def _time_of_day(modifier: int, options: TypeOptions) -> ColumnType:
    if options.times == "connect":
        return ColumnType(_time("int32", CONNECT + "Time"), lambda text: types_time.time_of_day(text) // 1000)
    if 0 <= modifier <= 3 and options.times == "adaptive":
        return ColumnType(_time("int32", DEBEZIUM_TIME + "Time"), lambda text: types_time.time_of_day(text) // 1000)
    return ColumnType(_time("int64", DEBEZIUM_TIME + "MicroTime"), types_time.time_of_day)


def _timestamp(modifier: int, options: TypeOptions) -> ColumnType:
    if options.times == "connect":
        return ColumnType(_time("int64", CONNECT + "Timestamp"), _timestamp_millis)
    if 0 <= modifier <= 3:
        return ColumnType(_time("int64", DEBEZIUM_TIME + "Timestamp"), _timestamp_millis)
    return ColumnType(_time("int64", DEBEZIUM_TIME + "MicroTimestamp"), types_time.timestamp_micros)


def _timestamp_millis(text: str) -> int:
    return types_time.timestamp_micros(text) // 1000


def _interval(_modifier: int, options: TypeOptions) -> ColumnType:
    if options.intervals == "string":
        return ColumnType(_time("string", DEBEZIUM_TIME + "Interval"), types_time.interval_iso)
    return ColumnType(_time("int64", DEBEZIUM_TIME + "MicroDuration"), types_time.interval_micros)


def _bit(modifier: int, _options: TypeOptions) -> ColumnType:
    if modifier == 1:
        return ColumnType(BOOLEAN, lambda text: text == "1")
    return _bits(modifier)


def _varbit(modifier: int, _options: TypeOptions) -> ColumnType:
    return _bits(modifier)


def _bits(modifier: int) -> ColumnType:
    length = str(modifier if modifier >= 0 else 2**31 - 1)
    schema = ConnectSchema("bytes", name=DEBEZIUM_DATA + "Bits", version=1, parameters={"length": length})
    return ColumnType(schema, types_text.bits)


_POINT = replace(
    struct_of(
        DEBEZIUM_DATA + "geometry.Point",
        {"x": FLOAT64, "y": FLOAT64, "wkb": BYTES.as_optional(), "srid": INT32.as_optional()},
    ),
    version=1,
)

_MAKERS: dict[str, Maker] = {
    "bool": _plain(BOOLEAN, types_text.boolean),
    "int2": _plain(INT16, int),
    "int4": _plain(INT32, int),
    "int8": _plain(INT64, int),
    "oid": _plain(INT64, int),
    "float4": _plain(FLOAT32, float),
    "float8": _plain(FLOAT64, float),
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytea,
    "date": _date,
    "time": _time_of_day,
    "timetz": _plain(_time("string", DEBEZIUM_TIME + "ZonedTime"), types_time.zoned_time),
    "timestamp": _timestamp,
    "timestamptz": _plain(_time("string", DEBEZIUM_TIME + "ZonedTimestamp"), types_time.zoned_timestamp),
    "interval": _interval,
    "uuid": _plain(_text("Uuid"), str),
    "json": _large(_text("Json")),
    "jsonb": _large(_text("Json")),
    "xml": _large(_text("Xml")),
    "tsvector": _large(_text("TsVector")),
    "bit": _bit,
    "varbit": _varbit,
    "point": _plain(_POINT, types_text.point),
}
"""The types that are not strings, by their names in the schema ``pg_catalog``."""
