"""JSON_SR: JSON behind the id of a JSON Schema; the schemas of columns, and the types of schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.registry.api import Schema, SchemaRegistry, SchemaType
from millstream.schemas.json_text import load_schema_json
from millstream.schemas.options import SerdeOptions
from millstream.schemas.serde import Decode, Encode, Parts, SchemaSerde
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.expansion import Expansion
from millstream.sql.formats.json_format import json_decoder, json_encoder
from millstream.sql.formats.physical import FLOAT32, INT8, INT16
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

_CONNECT = "org.apache.kafka.connect.data."
_PRIMITIVES: dict[SqlType, dict[str, Any]] = {
    BOOLEAN: {"type": "boolean"},
    INTEGER: {"type": "integer", "connect.type": "int32"},
    BIGINT: {"type": "integer", "connect.type": "int64"},
    DOUBLE: {"type": "number", "connect.type": "float64"},
    STRING: {"type": "string"},
    BYTES: {"type": "string", "connect.type": "bytes"},
    DATE: {"type": "integer", "title": f"{_CONNECT}Date", "connect.version": 1, "connect.type": "int32"},
    TIME: {"type": "integer", "title": f"{_CONNECT}Time", "connect.version": 1, "connect.type": "int32"},
    TIMESTAMP: {"type": "integer", "title": f"{_CONNECT}Timestamp", "connect.version": 1, "connect.type": "int64"},
}
_TITLES: dict[str, SqlType] = {f"{_CONNECT}{name}": type_ for name, type_ in
                               (("Date", DATE), ("Time", TIME), ("Timestamp", TIMESTAMP))}  # fmt: skip
_INTEGERS: dict[str, SqlType] = {"int8": INT8, "int16": INT16, "int32": INTEGER, "int64": BIGINT}


class JsonRows(SchemaSerde[Any]):
    """Writes the values of columns as JSON behind the id of their schema."""

    name = "json-schema"
    type: ClassVar[SchemaType] = "JSON"

    def __init__(self, schema: Schema, columns: Sequence[Column], *, wrapped: bool, schema_id: int | None) -> None:
        super().__init__(None, SerdeOptions(auto_register=True))
        self.columns = tuple(columns)
        self.wrapped = wrapped
        self.derived = schema
        self.given_id = schema_id

    def _record_name(self) -> str | None:
        return None

    def _complete_schema(self, registry: SchemaRegistry, *, register: bool) -> Schema | None:
        return self.derived

    def _to_write(self, registry: SchemaRegistry) -> tuple[int, Schema]:
        if self.given_id is not None:
            return self.given_id, registry.schema(self.given_id, self.subject)
        return super()._to_write(registry)

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        write = json_encoder(self.columns, wrapped=self.wrapped)
        return lambda values: prefix + (write(values) or b"null")

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        return json_decoder(self.columns, wrapped=self.wrapped, skip=skip)


def json_schema(columns: Sequence[Column], *, wrapped: bool) -> str:
    """Returns the text of the JSON Schema of columns."""
    if not wrapped:
        return json.dumps(_nullable(columns[0].type))
    return json.dumps(_object([(column.name, column.type) for column in columns]))


def _nullable(type_: SqlType, index: int | None = None) -> dict[str, Any]:
    place = {} if index is None else {"connect.index": index}
    return {**place, "oneOf": [{"type": "null"}, _type(type_)]}


def _object(fields: Sequence[tuple[str, SqlType]]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: _nullable(part, i) for i, (name, part) in enumerate(fields)}}


def _type(type_: SqlType) -> dict[str, Any]:
    if isinstance(type_, DecimalType):
        return {
            "type": "number",
            "title": f"{_CONNECT}Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)},
        }
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": _nullable(type_.element)}
    if isinstance(type_, MapType):
        return {"type": "object", "connect.type": "map", "additionalProperties": _nullable(type_.value)}
    if isinstance(type_, StructType):
        return _object(type_.fields)
    return _PRIMITIVES[type_]


def physical_type(text: str) -> SqlType | None:
    """Returns the type of a JSON Schema, None if columns cannot have it.

    Raises:
        ValueError: It is not JSON.
        InvalidSchemaError: The type is too large.
    """
    root = load_schema_json(text)
    return _Physical(root).type_of(root, (), 0)


class _Physical:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._expansion = Expansion()

    def type_of(self, schema: Any, above: tuple[str, ...], depth: int) -> SqlType | None:  # noqa: C901, PLR0911  (a case for each kind)
        if not isinstance(schema, dict):
            return None
        self._expansion.part(depth)
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if reference in above:
                return None  # a recursive type
            return self.type_of(_referred(reference, self._root), (*above, reference), depth + 1)
        for union in ("oneOf", "anyOf"):
            if union in schema:
                rest = [part for part in schema[union] if not (isinstance(part, dict) and part.get("type") == "null")]
                return self.type_of(rest[0], above, depth + 1) if len(rest) == 1 else None
        kind, connect, title = schema.get("type"), schema.get("connect.type"), schema.get("title")
        if isinstance(kind, list):
            kinds = [item for item in kind if item != "null"]
            kind = kinds[0] if len(kinds) == 1 else None
        if title == f"{_CONNECT}Decimal":
            parameters = schema.get("connect.parameters", {})
            return DecimalType(int(parameters.get("connect.decimal.precision", 64)), int(parameters.get("scale", 0)))
        if title in _TITLES:
            return _TITLES[title]
        if kind == "integer":
            return _INTEGERS.get(str(connect), BIGINT)
        if kind == "number":
            return FLOAT32 if connect == "float32" else _INTEGERS.get(str(connect), DOUBLE)
        if kind == "boolean":
            return BOOLEAN
        if kind == "string" or "enum" in schema:
            return BYTES if connect == "bytes" else STRING
        if kind == "array":
            element = self.type_of(schema.get("items"), above, depth + 1)
            return None if element is None else ArrayType(element)
        return self._object(schema, above, depth) if kind == "object" or "properties" in schema else None

    def _object(self, schema: dict[str, Any], above: tuple[str, ...], depth: int) -> SqlType | None:
        if schema.get("connect.type") == "map" or ("properties" not in schema and "additionalProperties" in schema):
            value = self.type_of(schema.get("additionalProperties"), above, depth + 1)
            return None if value is None else MapType(STRING, value)
        properties = list(schema.get("properties", {}).items())
        places = {
            name: part.get("connect.index", i) for i, (name, part) in enumerate(properties) if isinstance(part, dict)
        }
        properties.sort(key=lambda item: places.get(item[0], 0))
        fields = [(name, self.type_of(part, above, depth + 1)) for name, part in properties]
        return StructType(tuple((name, type_) for name, type_ in fields if type_ is not None))


def _referred(reference: str, root: Any) -> Any:
    node = root
    if not reference.startswith("#"):
        return None
    for step in reference[1:].split("/"):
        if step:
            node = node.get(step) if isinstance(node, dict) else None
    return node
