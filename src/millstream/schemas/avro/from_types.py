"""Avro schemas of Python types."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

from millstream.errors import InvalidSchemaError
from millstream.schemas.conversion import accepts
from millstream.schemas.python_types import (
    MISSING,
    TAGS,
    Aliases,
    Choice,
    Entries,
    Items,
    OneOf,
    PythonType,
    RecordField,
    Scalar,
    Tags,
)

_NAMES: dict[str, Any] = {
    "null": "null",
    "boolean": "boolean",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "bytes": "bytes",
    "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def schema_text(described: PythonType, namespace: str | None) -> str:
    """Returns the Avro schema of a type, as text.

    Raises:
        InvalidSchemaError: The type has no schema.
    """
    schema = _Writing().schema(described, "")
    if namespace is not None:
        if not isinstance(schema, dict) or "name" not in schema:
            raise InvalidSchemaError("avro: only records and enums have a namespace")
        schema = {**schema, "namespace": namespace}
    return json.dumps(schema)


class _Writing:
    def __init__(self) -> None:
        self._written: set[str] = set()

    def schema(self, described: PythonType, path: str) -> Any:
        if isinstance(described, Scalar):
            return _scalar(described, path)
        if isinstance(described, Items):
            return {"type": "array", "items": self.schema(described.item, path)}
        if isinstance(described, Entries):
            return {"type": "map", "values": self.schema(described.value, path)}
        if isinstance(described, OneOf):
            return self._union([self.schema(member, path) for member in described.members], path)
        if described.name in self._written:
            return described.name
        self._written.add(described.name)
        if isinstance(described, Choice):
            return {"type": "enum", "name": described.name, "symbols": list(described.symbols)}
        fields = [self._field(field, f"{path or described.name}.{field.attribute}") for field in described.fields]
        return {"type": "record", "name": described.name, "fields": fields}

    def _union(self, members: list[Any], path: str) -> list[Any]:
        kinds = [_kind(member) for member in members]
        if len(set(kinds)) < len(kinds):
            twice = next(kind for kind in kinds if kinds.count(kind) > 1)
            raise InvalidSchemaError(
                f"{path}: a union in Avro has at most one type {twice!r}", hint="put one of them into a class"
            )
        return members

    def _field(self, field: RecordField, path: str) -> dict[str, Any]:
        described, default = field.type, field.default
        if not field.required:
            described, default = _optional(described), None
        if isinstance(described, OneOf) and default is not MISSING:
            described = _with_default_first(described, default, path)
        elif isinstance(described, OneOf) and Scalar("null") in described.members:
            described = _with_default_first(described, None, path)
        written: dict[str, Any] = {"name": field.name, "type": self.schema(described, path)}
        if default is not MISSING:
            first = described.members[0] if isinstance(described, OneOf) else described
            written["default"] = _default(first, default, path)
        aliases = [name for item in field.annotations if isinstance(item, Aliases) for name in item.names]
        if aliases:
            written["aliases"] = aliases
        tags = [name for item in field.annotations if isinstance(item, Tags) for name in item.names]
        return {**written, TAGS: tags} if tags else written


def _scalar(described: Scalar, path: str) -> Any:
    if described.kind != "decimal":
        return _NAMES[described.kind]
    if described.digits is None:
        raise InvalidSchemaError(
            f"{path}: there is no schema for Decimal",
            hint="a decimal needs its digits: Annotated[Decimal, Digits(10, 2)]",
        )
    precision, scale = described.digits.precision, described.digits.scale
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _kind(schema: Any) -> str:
    """The type, of which a union has one at most."""
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def _optional(described: PythonType) -> PythonType:
    members = described.members if isinstance(described, OneOf) else (described,)
    return OneOf((Scalar("null"), *(member for member in members if member != Scalar("null"))))


def _with_default_first(described: OneOf, default: Any, path: str) -> OneOf:
    """The default of a union is a value of its first member."""
    for member in described.members:
        if accepts(member)(default):
            return OneOf((member, *(other for other in described.members if other is not member)))
    raise InvalidSchemaError(f"{path}: the default {default!r} is not of the type of the field")


def _default(described: PythonType, value: Any, path: str) -> Any:
    """Returns a default value as JSON, as Avro writes it."""
    if not accepts(described)(value):
        raise InvalidSchemaError(f"{path}: the default {value!r} is not of the type of the field")
    if isinstance(described, Scalar):
        return _scalar_default(described, value, path)
    if isinstance(described, Choice):
        return next(symbol for symbol, member in described.symbols.items() if member == value)
    if isinstance(described, Items):
        return [_default(described.item, item, path) for item in value]
    if isinstance(described, Entries):
        return {key: _default(described.value, item, path) for key, item in value.items()}
    if isinstance(described, OneOf):
        return _default(_with_default_first(described, value, path).members[0], value, path)
    values = value if isinstance(value, dict) else {f.attribute: getattr(value, f.attribute) for f in described.fields}
    return {f.name: _default(f.type, values[f.attribute], path) for f in described.fields}


def _scalar_default(described: Scalar, value: Any, path: str) -> Any:
    kind = described.kind
    if kind == "bytes":
        return value.decode("latin-1")
    if kind == "date":
        return (value - dt.date(1970, 1, 1)).days
    if kind == "time":
        return (dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second,
                                   microseconds=value.microsecond)) // _MICROSECOND  # fmt: skip
    if kind == "timestamp":
        if value.tzinfo is None:
            raise InvalidSchemaError(f"{path}: the default {value!r} has no time zone")
        return (value - _EPOCH) // _MICROSECOND
    if kind == "uuid":
        return str(value)
    if kind == "decimal":
        assert described.digits is not None
        unscaled = int(value.scaleb(described.digits.scale))
        return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True).decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSchemaError(f"{path}: the default {value!r} has no form in JSON")
    return float(value) if kind in {"float32", "float64"} else value
