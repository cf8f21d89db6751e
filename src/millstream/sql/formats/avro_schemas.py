"""Avro schemas of columns, and the types of Avro schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from millstream.errors import SqlStatementError
from millstream.schemas.avro.parsing import ParsedSchema
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.declarations import AVRO_NAMESPACE, names_of
from millstream.sql.formats.expansion import Expansion
from millstream.sql.formats.physical import FLOAT32
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

DEFAULT_NAME = f"{AVRO_NAMESPACE}.KsqlDataSourceSchema"
"""The name of the record of a value."""

_PRIMITIVES: dict[SqlType, Any] = {
    BOOLEAN: "boolean",
    INTEGER: "int",
    BIGINT: "long",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "bytes",
    DATE: {"type": "int", "logicalType": "date"},
    TIME: {"type": "int", "logicalType": "time-millis"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}
_TYPES: dict[str, SqlType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "enum": STRING,
    "fixed": BYTES,
}
_LOGICAL: dict[tuple[str, str], SqlType] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}
_START, _REST = re.compile(r"[A-Za-z_]"), re.compile(r"[A-Za-z0-9_]*")


def avro_name(name: str) -> str:
    """Returns the name of a column as Avro has it."""
    return name.replace(".", "_")


def check_names(columns: Sequence[Column], at: tuple[int, int] | None = None) -> None:
    """Checks that the names of columns and fields are names of Avro.

    Raises:
        SqlStatementError: One is not.
    """
    for name in names_of(columns):
        plain = avro_name(name)
        reason = None
        if not _START.match(plain):
            reason = "Illegal initial character"
        elif not _REST.fullmatch(plain):
            reason = "Illegal character in"
        if reason is not None:
            raise SqlStatementError(f"Schema is not compatible with Avro: {reason}: {name}", at=at)


def avro_schema(columns: Sequence[Column], full_name: str, *, wrapped: bool) -> str:
    """Returns the text of the schema of columns."""
    if not wrapped:
        return json.dumps(_type(columns[0].type, full_name))
    return json.dumps(_record(full_name, [(column.name, column.type) for column in columns]))


def _record(full_name: str, fields: Sequence[tuple[str, SqlType]]) -> dict[str, Any]:
    namespace, _, name = full_name.rpartition(".")
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": [
            {
                "name": avro_name(field),
                "type": ["null", _type(type_, f"{full_name}_{avro_name(field)}")],
                "default": None,
            }
            for field, type_ in fields
        ],
        "connect.name": full_name,
    }


def _type(type_: SqlType, full_name: str) -> Any:
    if isinstance(type_, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": ["null", _type(type_.element, full_name)]}
    if isinstance(type_, MapType):
        return {"type": "map", "values": ["null", _type(type_.value, f"{full_name}_MapValue")]}
    if isinstance(type_, StructType):
        return _record(full_name, type_.fields)
    return _PRIMITIVES[type_]


def physical_type(schema: Any, parsed: ParsedSchema) -> SqlType | None:
    """Returns the type of an Avro schema, None if columns cannot have it: a union, null, a recursive record.

    Raises:
        InvalidSchemaError: The type is too large.
    """
    return _Physical(parsed).type_of(schema, (), 0)


class _Physical:
    def __init__(self, parsed: ParsedSchema) -> None:
        self._parsed = parsed
        self._expansion = Expansion()

    def type_of(self, schema: Any, above: tuple[str, ...], depth: int) -> SqlType | None:
        self._expansion.part(depth)
        schema = resolved(schema, self._parsed)
        if isinstance(schema, str):
            return _primitive(schema, None)
        if not isinstance(schema, dict):
            return None
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, above, depth)
        if kind == "array":
            element = self.type_of(schema["items"], above, depth + 1)
            return None if element is None else ArrayType(element)
        if kind == "map":
            value = self.type_of(schema["values"], above, depth + 1)
            return None if value is None else MapType(STRING, value)
        if schema.get("logicalType") == "decimal":
            return DecimalType(int(schema.get("precision", 64)), int(schema.get("scale", 0)))
        if isinstance(kind, str):
            return _primitive(kind, schema.get("logicalType"))
        return self.type_of(kind, above, depth + 1)

    def _record(self, schema: Any, above: tuple[str, ...], depth: int) -> SqlType | None:
        name = schema["name"]
        if name in above:
            return None
        fields = [(f["name"], self.type_of(f["type"], (*above, name), depth + 1)) for f in schema["fields"]]
        return StructType(tuple((name, type_) for name, type_ in fields if type_ is not None))


def _primitive(kind: str, logical: str | None) -> SqlType | None:
    if kind == "float":
        return FLOAT32
    return _LOGICAL.get((kind, logical or "")) or _TYPES.get(kind)


def resolved(schema: Any, parsed: ParsedSchema) -> Any:
    """Returns a schema without the null of a union, and a named one by its name."""
    if isinstance(schema, list):
        rest = [part for part in schema if part != "null"]
        if len(rest) != 1:
            return schema
        schema = rest[0]
    if isinstance(schema, str) and schema in parsed.named:
        return parsed.named[schema]
    if isinstance(schema, dict) and isinstance(schema["type"], list | dict):
        return resolved(schema["type"], parsed)
    return schema


def without_logical_types(text: str) -> str:
    """Returns a schema whose values fastavro leaves as they are: days and milliseconds as integers."""

    def stripped(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: stripped(value) if key != "default" else value
                for key, value in node.items()
                if key != "logicalType"
            }
        return [stripped(item) for item in node] if isinstance(node, list) else node

    return json.dumps(stripped(json.loads(text)))
