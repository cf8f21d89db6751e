"""Describes the values of Avro schemas."""

from __future__ import annotations

from typing import Any

from millstream.core.frozen import replace
from millstream.expr import description
from millstream.expr.description import UNKNOWN, Description
from millstream.expr.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    DataType,
    DecimalType,
)
from millstream.schemas.avro.parsing import ParsedSchema

_TYPES: dict[str, DataType] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
    "enum": STRING,
    "fixed": BYTES,
}
_LOGICAL: dict[str, DataType] = {
    "date": DATE,
    "time-millis": TIME,
    "time-micros": TIME,
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
    "uuid": STRING,
}
_TAGS = "confluent:tags"


def describe_avro(schema: ParsedSchema) -> Description:
    """Returns the description of the values of a schema."""
    return _described(schema.root, schema.named, ())


def _described(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> Description:
    if isinstance(schema, list):
        members = [_described(member, named, inside) for member in schema if member != "null"]
        return description.union(members, nullable="null" in schema)
    if isinstance(schema, str):
        return Description(_TYPES[schema]) if schema in _TYPES else _described(named[schema], named, inside)
    kind = schema["type"]
    if kind in {"record", "error"}:
        return _record(schema, named, inside)
    if kind == "array":
        return description.array(_described(schema["items"], named, inside))
    if kind == "map":
        return description.mapping(_described(schema["values"], named, inside))
    if not isinstance(kind, str) or kind not in _TYPES:
        return _described(kind, named, inside)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return Description(DecimalType(schema["precision"], schema.get("scale", 0)))
    return Description(_LOGICAL.get(logical, _TYPES[kind]), name=schema.get("name"), doc=schema.get("doc"))


def _record(schema: dict[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Description:
    name = schema["name"]
    if name in inside:  # a recursive record has no finite type
        return replace(UNKNOWN, name=name, nullable=False)
    fields = [(field["name"], _field(field, named, (*inside, name))) for field in schema["fields"]]
    return description.record(name, fields, schema.get("doc"))


def _field(field: dict[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Description:
    described = _described(field["type"], named, inside)
    tags = field.get(_TAGS)
    return replace(
        described,
        doc=field.get("doc", described.doc),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
    )
