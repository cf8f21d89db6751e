"""Reads values with the reader's schema where they were written with another one.

fastavro resolves the two schemas; here are the defaults of fields that the writer's schema does not have. fastavro
returns a default as the schema has it in JSON: a text for bytes, a number for a date. And it returns the same list or
dict for each record.
"""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import uuid
from typing import Any

from millstream.schemas.avro.parsing import ParsedSchema, inner

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOCAL_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (local timestamps have no time zone)
_UNITS = {"millis": 1000, "micros": 1}


def with_python_defaults(schema: ParsedSchema) -> tuple[Any, bool]:
    """Returns a schema for reading whose defaults are Python values, and whether one of them can be modified."""
    root = copy.deepcopy(schema.root)
    named: dict[str, Any] = {}
    mutable = False
    parts, seen = [root], set()
    while parts:
        part = parts.pop()
        if isinstance(part, str) or id(part) in seen:
            continue
        seen.add(id(part))
        parts.extend(inner(part))
        if isinstance(part, dict) and "name" in part:
            named[part["name"]] = part
            parts.extend(part.get("__named_schemas", {}).values())
    for record in named.values():
        for field in record.get("fields", ()):
            if "default" in field:
                field["default"] = python_default(field["type"], field["default"], named)
                mutable = mutable or isinstance(field["default"], list | dict)
    return root, mutable


def python_default(schema: Any, value: Any, named: dict[str, Any]) -> Any:
    """Returns the default of a field, which the schema has in JSON, as a Python value."""
    if isinstance(schema, list):
        return python_default(schema[0], value, named)
    if isinstance(schema, str):
        if schema in named:
            return python_default(named[schema], value, named)
        return value.encode("latin-1") if schema == "bytes" and isinstance(value, str) else value
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "array":
        return [python_default(schema["items"], item, named) for item in value]
    if kind == "map":
        return {key: python_default(schema["values"], item, named) for key, item in value.items()}
    if kind == "record":
        return {
            field["name"]: python_default(field["type"], value[field["name"]], named)
            if field["name"] in value
            else python_default(field["type"], field.get("default"), named)
            for field in schema["fields"]
        }
    if kind in {"bytes", "fixed"} and isinstance(value, str):
        value = value.encode("latin-1")
    return value if logical is None else _logical(logical, schema, value)


def _logical(logical: str, schema: Any, value: Any) -> Any:
    if logical == "decimal" and isinstance(value, bytes):
        return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema.get("scale", 0))
    if logical == "uuid":
        return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
    if logical == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    family, _, unit = logical.rpartition("-")
    if unit not in _UNITS or not isinstance(value, int):
        return value
    delta = dt.timedelta(microseconds=value * _UNITS[unit])
    if family == "time":
        return (_EPOCH + delta).time()
    return (_EPOCH if family == "timestamp" else _LOCAL_EPOCH) + delta
