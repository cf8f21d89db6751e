"""Reads values of an Avro schema from JSON, for the command line.

The form is that of the JSON which `consume` prints: bytes in base64, dates and times in ISO 8601, decimals and UUIDs as
text. A union needs no name of the type, as Avro's own JSON encoding demands it; it may have one, and dates and times
may be the numbers that Avro writes, so that most texts in that encoding are read, too.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

from millstream.errors import suggestion
from millstream.schemas.avro.parsing import PRIMITIVES, ParsedSchema
from millstream.schemas.avro.resolution import python_default
from millstream.serde.error_messages import shorten

_BITS = {"int": 31, "long": 63}
_LARGEST_FLOAT = 3.4028235677973366e38
_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")


def json_reader(schema: ParsedSchema) -> Callable[[Any], Any]:
    """Returns the function that converts plain JSON data to a value that fastavro writes.

    It raises ValueError with the path of the field. fastavro alone would ignore unknown fields, and would choose the
    type of a union by rules of its own.
    """
    reader = _Reader(schema.named)
    return lambda value: reader.read(schema.root, value, "")


class _Reader:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def read(self, schema: Any, value: Any, path: str) -> Any:  # noqa: PLR0911  (one case for each type)
        if isinstance(schema, list):
            return self._union(schema, value, path)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return _primitive(schema, value, path)
            return self.read(self._named[schema], value, path)
        kind = schema["type"]
        if kind in {"record", "error"}:
            return self._record(schema, value, path)
        if kind == "array":
            items = _checked(value, list, "an array", path)
            return [self.read(schema["items"], item, f"{path}[{index}]") for index, item in enumerate(items)]
        if kind == "map":
            entries = _checked(value, dict, "an object", path)
            return {key: self.read(schema["values"], item, _below(path, key)) for key, item in entries.items()}
        if kind == "enum":
            if value not in schema["symbols"]:
                _fail(path, value, f"one of {', '.join(schema['symbols'])}")
            return value
        if schema.get("logicalType") is not None:
            return _logical(schema, value, path)
        if kind == "fixed":
            return _fixed(schema, value, path)
        return self.read(kind, value, path)

    def _record(self, schema: Any, value: Any, path: str) -> dict[str, Any]:
        given = _checked(value, dict, "an object", path)
        fields = {field["name"]: field for field in schema["fields"]}
        for name in given:
            if name not in fields:
                near = suggestion(name, fields) or f"{schema['name']} has: {', '.join(fields)}"
                raise ValueError(f"{_below(path, name)}: the schema has no such field; {near}")
        record = {}
        for name, field in fields.items():
            if name in given:
                record[name] = self.read(field["type"], given[name], _below(path, name))
            elif "default" in field:
                record[name] = python_default(field["type"], field["default"], self._named)
            else:
                raise ValueError(f"{_below(path, name)}: it is missing, and the field has no default")
        return record

    def _union(self, schema: list[Any], value: Any, path: str) -> Any:
        """Returns the value, with its type if there are several: fastavro then takes that one."""
        if value is None and "null" in schema:
            return None
        types = [each for each in schema if each != "null"]

        def chosen(each: Any, read: Any) -> Any:
            return (_names(each)[0], read) if len(types) > 1 else read

        if isinstance(value, dict) and len(value) == 1:
            (name, content), *_ = value.items()
            for each in types:
                if name in _names(each):
                    try:
                        return chosen(each, self.read(each, content, path))
                    except ValueError:
                        break  # an object with a member of that name
        problems = []
        for each in types:
            try:
                return chosen(each, self.read(each, value, path))
            except ValueError as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        return _fail(path, value, f"one of {', '.join(_names(each)[0] for each in schema)}")


def _names(schema: Any) -> tuple[str, ...]:
    """The names of a type in a union: the full one, and the short one."""
    name = schema if isinstance(schema, str) else schema.get("name") or schema["type"]
    return (name, name.rpartition(".")[2])


def _primitive(kind: str, value: Any, path: str) -> Any:
    if kind == "null":
        return value if value is None else _fail(path, value, "null")
    if kind == "boolean":
        return _checked(value, bool, "a boolean", path)
    if kind == "string":
        text = _checked(value, str, "a text", path)
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{_where(path)}: it contains a lone surrogate, which cannot be encoded")
        return text
    if kind == "bytes":
        return _bytes(value, path)
    if kind in _BITS:
        bits = _BITS[kind]
        if type(value) is not int or not -(1 << bits) <= value < 1 << bits:  # True is an int to Python
            _fail(path, value, f"{'an' if kind == 'int' else 'a'} {kind}")
        return value
    if value in _NOT_IN_JSON:
        return float(value)
    if type(value) not in {int, float} or (kind == "float" and abs(value) >= _LARGEST_FLOAT):
        _fail(path, value, f"a {kind}")
    return float(value)


def _bytes(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(_checked(value, str, "bytes in base64", path), validate=True)
    except (binascii.Error, ValueError):
        _fail(path, value, "bytes in base64")


def _fixed(schema: Any, value: Any, path: str) -> bytes:
    data = _bytes(value, path)
    if len(data) != schema["size"]:
        raise ValueError(f"{_where(path)}: {len(data)} bytes, but {schema['name']} has {schema['size']}")
    return data


def _logical(schema: Any, value: Any, path: str) -> Any:
    kind, logical = schema["type"], str(schema["logicalType"])
    family = logical.rpartition("-")[0] or logical
    if logical == "decimal":
        return _decimal(schema, value, path)
    expected, parse = _PARSED.get(family, (None, None))
    if parse is None or expected is None or not isinstance(value, str):
        return _fixed(schema, value, path) if kind == "fixed" else _primitive(kind, value, path)
    try:
        return parse(value)
    except ValueError:
        _fail(path, value, expected)


def _instant(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _local(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None)


_PARSED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "uuid": ("a UUID", uuid.UUID),
    "date": ("a date: 2026-01-31", dt.date.fromisoformat),
    "time": ("a time: 12:30:00", dt.time.fromisoformat),
    "timestamp": ("a timestamp: 2026-01-31T12:30:00Z", _instant),
    "local-timestamp": ("a local timestamp: 2026-01-31T12:30:00", _local),
}


def _decimal(schema: Any, value: Any, path: str) -> decimal.Decimal:
    scale, precision = schema.get("scale", 0), schema["precision"]
    expected = f"a decimal of {precision} digits, {scale} of them behind the point"
    if type(value) not in {int, float, str}:
        _fail(path, value, expected)
    try:
        number = decimal.Decimal(value if isinstance(value, str) else json.dumps(value))
        scaled = number.scaleb(scale, decimal.Context(prec=2000))
    except decimal.InvalidOperation:
        _fail(path, value, expected)
    if not number.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) >= 10**precision:
        _fail(path, value, expected)
    return number


def _checked(value: Any, kind: type, expected: str, path: str) -> Any:
    return value if isinstance(value, kind) else _fail(path, value, expected)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _where(path: str) -> str:
    return path or "the value"


def _fail(path: str, value: Any, expected: str) -> NoReturn:
    shown = shorten(value) if isinstance(value, str) else json.dumps(value)[:60]
    raise ValueError(f"{_where(path)}: {shown} is not {expected}")
