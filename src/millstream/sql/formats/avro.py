"""AVRO: rows and keys in Avro's binary encoding, with the schemas of a registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.registry.api import Schema, SchemaRegistry
from millstream.schemas.avro.parsing import ParsedSchema, parsed
from millstream.schemas.avro.serde import AvroSerde
from millstream.schemas.options import SerdeOptions
from millstream.schemas.serde import Decode, Encode, Parts
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.avro_schemas import avro_name, physical_type, resolved, without_logical_types
from millstream.sql.formats.physical import columns_conversion, unscaled, unscaled_bytes
from millstream.sql.formats.rows import Convert
from millstream.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType


class AvroRows(AvroSerde[Any]):
    """Writes the values of columns, and reads them with the schema with which they were written."""

    name = "avro"

    def __init__(self, schema: Schema, columns: Sequence[Column], *, wrapped: bool, schema_id: int | None) -> None:
        super().__init__(None, SerdeOptions(auto_register=True))
        self.columns = tuple(columns)
        self.wrapped = wrapped
        self.derived = schema
        self.given_id = schema_id

    def _complete_schema(self, registry: SchemaRegistry, *, register: bool) -> Schema | None:
        return self.derived

    def _to_write(self, registry: SchemaRegistry) -> tuple[int, Schema]:
        if self.given_id is not None:
            return self.given_id, registry.schema(self.given_id, self.subject)
        return super()._to_write(registry)

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        own = parsed(schema, parts)
        write = super()._encoder(_plain(schema), _plain_parts(parts), prefix)
        if not self.wrapped:
            convert = _writer(own.root, own, self.columns[0].type)
            return lambda values: write(values[0] if convert is None else convert(values[0]))
        make = _record_writer(own.root, own, [(column.name, column.type) for column in self.columns])
        names = [column.name for column in self.columns]
        return lambda values: write(make(dict(zip(names, values, strict=True))))

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        written = parsed(schema, parts)
        physical = physical_type(written.root, written)  # first: it refuses types that are too large
        if physical is None:
            raise ValueError("columns cannot have the type of the schema")
        read = super()._decoder(_plain(schema), _plain_parts(parts), (), skip)
        normalise = _normaliser(written.root, written)
        convert = columns_conversion(physical, self.columns, wrapped=self.wrapped)
        if normalise is None:
            return lambda data: convert(read(data))
        return lambda data: convert(_applied(normalise, read(data)))


def _plain(schema: Schema) -> Schema:
    return Schema(without_logical_types(schema.text), schema.type, schema.references)


def _plain_parts(parts: Parts) -> Parts:
    return tuple((name, _plain(part)) for name, part in parts)


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _normaliser(schema: Any, own: ParsedSchema, above: tuple[str, ...] = ()) -> Convert | None:
    """Returns the function that makes decimals of the bytes of a value; None if there are none."""
    schema = resolved(schema, own)
    if not isinstance(schema, dict):
        return None
    kind = schema["type"]
    if schema.get("logicalType") == "decimal":
        scale = int(schema.get("scale", 0))
        return lambda data: unscaled(data, scale)
    if kind in ("array", "map"):
        inner = _normaliser(schema["items" if kind == "array" else "values"], own, above)
        if inner is None:
            return None
        if kind == "array":
            return lambda items: [_applied(inner, item) for item in items]
        return lambda entries: {key: _applied(inner, value) for key, value in entries.items()}
    if kind in ("record", "error") and schema["name"] not in above:
        parts = {f["name"]: _normaliser(f["type"], own, (*above, schema["name"])) for f in schema["fields"]}
        if any(parts.values()):
            return lambda record: {name: _applied(parts.get(name), value) for name, value in record.items()}
    return None


def _writer(schema: Any, own: ParsedSchema, type_: SqlType) -> Convert | None:
    """Returns the function that prepares a value, which is not None, for fastavro."""
    schema = resolved(schema, own)
    if isinstance(type_, DecimalType):
        scale = int(schema.get("scale", 0)) if isinstance(schema, dict) else type_.scale
        return lambda value: unscaled_bytes(value, scale)
    if isinstance(type_, ArrayType):
        element = _writer(_part(schema, "items"), own, type_.element)
        return None if element is None else lambda items: [_applied(element, item) for item in items]
    if isinstance(type_, MapType):
        value = _writer(_part(schema, "values"), own, type_.value)
        return None if value is None else lambda entries: {k: _applied(value, v) for k, v in entries.items()}
    if isinstance(type_, StructType):
        return _record_writer(schema, own, type_.fields)
    return None


def _part(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, dict) else None


def _record_writer(schema: Any, own: ParsedSchema, fields: Sequence[tuple[str, SqlType]]) -> Convert:
    schema = resolved(schema, own)
    if not isinstance(schema, dict) or "fields" not in schema:
        raise ValueError("the schema is not a record")
    types = {field["name"]: field["type"] for field in schema["fields"]}
    # A field that cannot be null gets its default: the writer fills in the fields that are left out.
    filled = {field["name"] for field in schema["fields"] if "default" in field and not _takes_null(field["type"])}
    upper = {name.upper(): name for name in types}
    parts = []
    for name, type_ in fields:
        plain = avro_name(name)
        target = plain if plain in types else upper.get(plain.upper())
        if target is None:
            raise ValueError(f"the schema has no field {name}")
        parts.append((name, target, _writer(types[target], own, type_)))
    if filled.isdisjoint(target for _name, target, _convert in parts):
        return lambda row: {target: _applied(convert, row[name]) for name, target, convert in parts}
    return lambda row: {
        target: _applied(convert, row[name])
        for name, target, convert in parts
        if row[name] is not None or target not in filled
    }


def _takes_null(type_: Any) -> bool:
    return type_ == "null" or (isinstance(type_, list) and "null" in type_)
