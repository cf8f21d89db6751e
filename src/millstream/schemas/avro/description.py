"""Describes the values of Avro schemas."""

from __future__ import annotations

from typing import Any

from millstream.core.frozen import replace
from millstream.expr import description
from millstream.expr.description import UNKNOWN, Description, Limit
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
    return _Describing(schema.named).value(schema.root, ())


class _Describing:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._limit = Limit()

    def value(self, schema: Any, inside: tuple[str, ...]) -> Description:
        if isinstance(schema, list):
            members = [self.value(member, inside) for member in schema if member != "null"]
            return description.union(members, nullable="null" in schema)
        if isinstance(schema, str):
            return Description(_TYPES[schema]) if schema in _TYPES else self.value(self._named[schema], inside)
        kind = schema["type"]
        if kind in {"record", "error"}:
            return self._record(schema, inside)
        if kind == "array":
            return description.array(self.value(schema["items"], inside))
        if kind == "map":
            return description.mapping(self.value(schema["values"], inside))
        if not isinstance(kind, str) or kind not in _TYPES:
            return self.value(kind, inside)
        logical = schema.get("logicalType")
        if logical == "decimal":
            return Description(DecimalType(schema["precision"], schema.get("scale", 0)))
        return Description(_LOGICAL.get(logical, _TYPES[kind]), name=schema.get("name"), doc=schema.get("doc"))

    def _record(self, schema: dict[str, Any], inside: tuple[str, ...]) -> Description:
        name = schema["name"]
        if not self._limit.allows(name, inside):
            return replace(UNKNOWN, name=name, nullable=False)
        fields = [(field["name"], self._field(field, (*inside, name))) for field in schema["fields"]]
        return description.record(name, fields, schema.get("doc"))

    def _field(self, field: dict[str, Any], inside: tuple[str, ...]) -> Description:
        described = self.value(field["type"], inside)
        tags = field.get(_TAGS)
        return replace(
            described,
            doc=field.get("doc", described.doc),
            tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        )
