"""PROTOBUF and PROTOBUF_NOSR: rows and keys as messages, with or without the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from millstream.registry.api import Schema, SchemaRegistry, SchemaType
from millstream.schemas.options import SerdeOptions
from millstream.schemas.protobuf.descriptors import class_of, indexes_of, read_indexes, write_indexes
from millstream.schemas.serde import Decode, Encode, Parts, SchemaSerde
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.physical import columns_conversion, unscaled, unscaled_bytes
from millstream.sql.formats.protobuf_schemas import (
    WRAPPED,
    is_map,
    message_fields,
    message_of,
    messages_of,
    physical_field,
    physical_message,
)
from millstream.sql.formats.protobuf_types import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from millstream.sql.formats.rows import Convert
from millstream.sql.functions.java.calendar import civil_from_days, days_from_civil
from millstream.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType

Fill = Callable[[Any, Any], None]
Read = Callable[[Any], Any]


class ProtobufRows(SchemaSerde[Any]):
    """Writes the values of columns as a message, and reads the message that a record names."""

    name = "protobuf"
    type: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[Column],
        *,
        wrapped: bool,
        schema_id: int | None,
        message: str | None,
        bare: bool,
    ) -> None:
        super().__init__(schema if bare else None, SerdeOptions(bare=bare, auto_register=True))
        self.columns = tuple(columns)
        self.wrapped = wrapped
        self.derived = schema
        self.given_id = schema_id
        self.message = message

    def _record_name(self) -> str | None:
        return self.message

    def _complete_schema(self, registry: SchemaRegistry, *, register: bool) -> Schema | None:
        return self.derived

    def _to_write(self, registry: SchemaRegistry) -> tuple[int, Schema]:
        if self.given_id is not None:
            return self.given_id, registry.schema(self.given_id, self.subject)
        return super()._to_write(registry)

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        message = message_of(schema, parts, self.message)
        cls = class_of(message)
        if prefix:
            prefix += write_indexes(indexes_of(message))
        fields = message_fields(self.columns, wrapped=self.wrapped)
        fill = _message_filler(message, fields)
        bare_struct = not self.wrapped and isinstance(self.columns[0].type, StructType)
        names = [name for name, _type in fields]

        def encode(values: Any) -> bytes:
            made = cls()
            fill(made, values[0] if bare_struct else dict(zip(names, values, strict=True)))
            return prefix + bytes(made.SerializeToString(deterministic=True))

        return encode

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        readers: dict[tuple[int, ...], Decode] = {}
        messages = messages_of(schema, parts)

        def decode(data: bytes) -> Any:
            indexes, start = read_indexes(data, skip) if skip else ((0,), 0)
            read = readers.get(indexes)
            if read is None:
                read = readers[indexes] = self._message_decoder(messages.at(indexes))
            return read(data[start:])

        return decode

    def _message_decoder(self, message: Any) -> Decode:
        physical = physical_message(message)  # first: it refuses types that are too large
        parse, read = class_of(message).FromString, _message_reader(message)
        bare_struct = not self.wrapped and isinstance(self.columns[0].type, StructType)
        convert = columns_conversion(physical, self.columns, wrapped=not bare_struct)
        return lambda data: convert(read(parse(data)))


# ----- reading -------------------------------------------------------------------------------------------------------


def _message_reader(message: Any, above: tuple[str, ...] = ()) -> Read:
    above = (*above, message.full_name)
    parts = [
        (field.name, _field_reader(field, above))
        for field in message.fields
        if physical_field(field, above) is not None
    ]
    return lambda made: {name: read(made) for name, read in parts}


def _field_reader(field: Any, above: tuple[str, ...]) -> Read:
    name = field.name
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _value_reader(entry["key"], above), _value_reader(entry["value"], above)
        return lambda made: {_applied(key, k): _applied(value, v) for k, v in getattr(made, name).items()}
    read = _value_reader(field, above)
    if field.is_repeated:
        if read is None:
            return lambda made: list(getattr(made, name))
        return lambda made: [read(item) for item in getattr(made, name)]
    if field.has_presence:
        return lambda made: _applied(read, getattr(made, name)) if made.HasField(name) else None
    return lambda made: _applied(read, getattr(made, name))


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _value_reader(field: Any, above: tuple[str, ...]) -> Convert | None:
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.message_type is None:
        if field.cpp_type == field.CPPTYPE_UINT64:
            return lambda number: number if number < 1 << 63 else number - (1 << 64)
        return None
    name = field.message_type.full_name
    if name in WRAPPED:
        return lambda wrapper: wrapper.value
    return _KNOWN_READERS.get(name) or _message_reader(field.message_type, above)


def _read_date(made: Any) -> int:
    return days_from_civil(made.year, made.month, made.day)


def _read_time(made: Any) -> int:
    return int(((made.hours * 60 + made.minutes) * 60 + made.seconds) * 1000 + made.nanos // 1_000_000)


def _read_timestamp(made: Any) -> int:
    return int(made.seconds * 1000 + made.nanos // 1_000_000)


def _read_decimal(made: Any) -> Decimal:
    if abs(made.scale) > 1000:
        raise ValueError(f"a decimal has the scale {made.scale}")
    return unscaled(made.value, made.scale)


_KNOWN_READERS: dict[str, Convert] = {
    DATE_NAME: _read_date,
    TIME_NAME: _read_time,
    TIMESTAMP_NAME: _read_timestamp,
    DECIMAL_NAME: _read_decimal,
}


# ----- writing -------------------------------------------------------------------------------------------------------


def _message_filler(message: Any, fields: Sequence[tuple[str, SqlType]]) -> Fill:
    own = message.fields_by_name
    upper = {name.upper(): field for name, field in own.items()}
    parts = []
    for name, type_ in fields:
        field = own.get(name) or upper.get(name.upper())
        if field is None:
            raise ValueError(f"the message {message.full_name} has no field {name}")
        parts.append((name, _field_filler(field, type_)))

    def fill(made: Any, row: Any) -> None:
        for name, write in parts:
            value = row[name]
            if value is not None:
                write(made, value)

    return fill


def _field_filler(field: Any, type_: SqlType) -> Fill:
    name = field.name
    if isinstance(type_, MapType):
        return _map_filler(name, field.message_type.fields_by_name["value"], type_.value)
    if isinstance(type_, ArrayType):
        return _array_filler(name, field, type_.element)
    if field.message_type is None:
        plain = _scalar(field)
        return lambda made, value: setattr(made, name, plain(value))
    fill = _inner_filler(field, type_)

    def write(made: Any, value: Any) -> None:
        inner = getattr(made, name)
        inner.SetInParent()
        fill(inner, value)

    return write


def _array_filler(name: str, field: Any, element: SqlType) -> Fill:
    if field.message_type is None:
        plain, default = _scalar(field), field.default_value if field.enum_type is None else 0
        default = _DEFAULTS.get(field.cpp_type, 0) if default in (None, []) else default
        return lambda made, items: getattr(made, name).extend(
            [default if item is None else plain(item) for item in items]
        )
    fill = _inner_filler(field, element)

    def write(made: Any, items: Any) -> None:
        repeated = getattr(made, name)
        for item in items:
            inner = repeated.add()
            if item is not None:
                fill(inner, item)

    return write


_DEFAULTS: dict[int, Any] = {9: "", 7: False, 5: 0.0, 6: 0.0}
"""The default of a string, a boolean and a float, by their type in C++."""


def _map_filler(name: str, field: Any, type_: SqlType) -> Fill:
    if field.message_type is None:
        plain = _scalar(field)

        def write(made: Any, entries: Any) -> None:
            target = getattr(made, name)
            for key, value in entries.items():
                if value is None:
                    _touch = target[key]  # the default
                else:
                    target[key] = plain(value)

        return write
    fill = _inner_filler(field, type_)

    def write_messages(made: Any, entries: Any) -> None:
        target = getattr(made, name)
        for key, value in entries.items():
            inner = target[key]
            if value is not None:
                fill(inner, value)

    return write_messages


def _scalar(field: Any) -> Convert:
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}
        return lambda name: numbers[name]
    return lambda value: value


def _inner_filler(field: Any, type_: SqlType) -> Fill:
    name = field.message_type.full_name
    if name in WRAPPED:
        return lambda made, value: setattr(made, "value", value)
    if name in _KNOWN_FILLERS:
        return _KNOWN_FILLERS[name]
    if isinstance(type_, DecimalType) and name == DECIMAL_NAME:
        precision, scale = type_.precision, type_.scale

        def write_decimal(made: Any, value: Decimal) -> None:
            made.value, made.precision, made.scale = unscaled_bytes(value, scale), precision, scale

        return write_decimal
    if isinstance(type_, StructType):
        return _message_filler(field.message_type, type_.fields)
    raise ValueError(f"the field {field.name} is a {name}, the column is {type_}")


def _fill_date(made: Any, value: int) -> None:
    made.year, made.month, made.day = civil_from_days(value)


def _fill_time(made: Any, value: int) -> None:
    seconds, rest = divmod(value, 1000)
    made.hours, made.minutes, made.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    made.nanos = rest * 1_000_000


def _fill_timestamp(made: Any, value: int) -> None:
    made.seconds, rest = divmod(value, 1000)
    made.nanos = rest * 1_000_000


_KNOWN_FILLERS: dict[str, Fill] = {DATE_NAME: _fill_date, TIME_NAME: _fill_time, TIMESTAMP_NAME: _fill_timestamp}
