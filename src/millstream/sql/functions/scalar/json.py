"""Functions of JSON text."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from millstream.sql.functions.catalogue import on, scalar
from millstream.sql.functions.java.json import ABSENT, json_text, parse_json, parse_path, quoted
from millstream.sql.functions.java.text import decimal_text, double_text, text_of
from millstream.sql.functions.signatures import Bound
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


@lru_cache(maxsize=256)
def _path(text: str) -> list[str]:
    return parse_path(text)


def _bare(node: Any) -> str:
    return node if isinstance(node, str) else json_text(node)


def _extract(text: str, path: str) -> str | None:
    node = parse_json(text)
    for step in _path(path):
        if isinstance(node, list):
            index = int(step) if step.isdecimal() and len(step) < 10 else -1
            if not 0 <= index < len(node):
                return None
            node = node[index]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return None
    return None if node is ABSENT else _bare(node)


def _is_json(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return parse_json(text) is not ABSENT
    except ValueError:
        return False


def _array_length(text: str) -> int | None:
    node = parse_json(text)
    return len(node) if isinstance(node, list) else None


def _keys(text: str) -> list[str] | None:
    node = parse_json(text)
    return list(node) if isinstance(node, dict) else None


def _records(text: str) -> dict[str, str] | None:
    node = parse_json(text)
    return {name: _bare(value) for name, value in node.items()} if isinstance(node, dict) else None


def _items(text: str) -> list[str]:
    node = parse_json(text)
    if not isinstance(node, list):
        raise TypeError(f"JSON_ITEMS: {text[:100]!r} is no JSON array")
    return [json_text(item) for item in node]


def _array_contains(bound: Bound) -> Callable[[str | None, Any], bool]:
    type_ = bound.types[1]

    def contains(text: str | None, value: Any) -> bool:
        try:
            node = parse_json(text or "")
        except ValueError:
            return False
        return isinstance(node, list) and any(_same(item, value, type_) for item in node)

    return contains


def _same(item: Any, value: Any, type_: SqlType | None) -> bool:
    """Whether an item of JSON is a value of SQL; both must be of the same kind."""
    if item is None or value is None:
        return item is None and value is None
    if isinstance(item, bool) or type_ == BOOLEAN:
        return isinstance(item, bool) and type_ == BOOLEAN and item == value
    if isinstance(item, int):
        return type_ in {INTEGER, BIGINT} and bool(item == value)
    if isinstance(item, Decimal):
        return type_ == DOUBLE and float(item) == value
    return isinstance(item, str) and type_ == STRING and item == value


def _concat(*texts: str | None) -> str | None:
    if not texts:
        raise ValueError("JSON_CONCAT has no arguments")
    nodes: list[Any] = []
    for text in texts:
        node = ABSENT if text is None else parse_json(text)
        if node is ABSENT:
            return None
        nodes.append(node)
    if len(nodes) == 1:
        return json_text(nodes[0])
    if all(isinstance(node, dict) for node in nodes):
        merged: dict[str, Any] = {}
        for node in nodes:
            merged.update(node)
        return json_text(merged)
    return json_text([item for node in nodes for item in (node if isinstance(node, list) else [node])])


# ----- values to JSON ------------------------------------------------------------------------------------------------


def _double_json(value: float) -> str:
    shown = double_text(value)
    return shown if shown[-1].isdigit() else f'"{shown}"'


_WRITERS: dict[SqlType, Callable[[Any], str]] = {
    BOOLEAN: lambda value: "true" if value else "false",
    INTEGER: str,
    BIGINT: str,
    DOUBLE: _double_json,
    STRING: quoted,
    BYTES: lambda value: f'"{base64.b64encode(value).decode("ascii")}"',
}


def _quoted_text(type_: SqlType) -> Callable[[Any], str]:
    text = text_of(type_)
    return lambda value: quoted(text(value))


_WRITERS.update({type_: _quoted_text(type_) for type_ in (DATE, TIME, TIMESTAMP)})


def json_writer(type_: SqlType) -> Callable[[Any], str]:
    """Returns the function that writes values of a type, NULL included, as JSON with sorted members.

    >>> json_writer(MapType(STRING, DOUBLE))({"b": 1.0, "a": None})
    '{"a":null,"b":1.0}'
    """
    write = _writer(type_)
    return lambda value: "null" if value is None else write(value)


def _writer(type_: SqlType) -> Callable[[Any], str]:
    if isinstance(type_, DecimalType):
        return decimal_text
    if isinstance(type_, ArrayType):
        element = json_writer(type_.element)
        return lambda items: f"[{','.join([element(item) for item in items])}]"
    if isinstance(type_, MapType):
        key_text, value = text_of(type_.key), json_writer(type_.value)

        def write_map(entries: dict[Any, Any]) -> str:
            named = {"null" if key is None else key_text(key): item for key, item in entries.items()}
            return f"{{{','.join([f'{quoted(name)}:{value(named[name])}' for name in sorted(named)])}}}"

        return write_map
    if isinstance(type_, StructType):
        fields = [(name, json_writer(part)) for name, part in sorted(type_.fields, key=lambda field: field[0])]
        return lambda struct: f"{{{','.join([f'{quoted(name)}:{write(struct.get(name))}' for name, write in fields])}}}"
    return _WRITERS[type_]


FUNCTIONS = (
    scalar(
        "EXTRACTJSONFIELD",
        "json",
        "Returns the field at a path such as $.a.b[0] of a JSON text; texts bare, others as JSON.",
        ('EXTRACTJSONFIELD(\'{"a": [{"b": "x"}]}\', \'$.a[0].b\')', "x"),
        on("(STRING, STRING) -> STRING", _extract),
    ),
    scalar(
        "IS_JSON_STRING",
        "json",
        "Whether a text is JSON.",
        ("IS_JSON_STRING('[1, 2')", "false"),
        on("(STRING) -> BOOLEAN", _is_json, nulls=True),
    ),
    scalar(
        "JSON_ARRAY_LENGTH",
        "json",
        "Returns the number of elements of a JSON array; NULL if the text is another kind of JSON.",
        ("JSON_ARRAY_LENGTH('[1, 2]')", "2"),
        on("(STRING) -> INT", _array_length),
    ),
    scalar(
        "JSON_KEYS",
        "json",
        "Returns the names of a JSON object; NULL if the text is another kind of JSON.",
        ("JSON_KEYS('{\"a\": 1}')", "[a]"),
        on("(STRING) -> ARRAY<STRING>", _keys),
    ),
    scalar(
        "JSON_RECORDS",
        "json",
        "Returns the members of a JSON object; NULL if the text is another kind of JSON.",
        ("JSON_RECORDS('{\"a\": [1]}')", "{a=[1]}"),
        on("(STRING) -> MAP<STRING, STRING>", _records),
    ),
    scalar(
        "JSON_ITEMS",
        "json",
        "Returns the elements of a JSON array, each as JSON.",
        ("JSON_ITEMS('[1, {\"a\": 2}]')", '[1, {"a":2}]'),
        on("(STRING) -> ARRAY<STRING>", _items),
    ),
    scalar(
        "JSON_ARRAY_CONTAINS",
        "json",
        "Whether a JSON array has a value of the same kind.",
        ("JSON_ARRAY_CONTAINS('[1, 2]', 2)", "true"),
        on("(STRING, T) -> BOOLEAN", bind=_array_contains, nulls=True),
    ),
    scalar(
        "JSON_CONCAT",
        "json",
        "Merges JSON objects; other kinds of JSON become one array.",
        ("JSON_CONCAT('{\"a\": 1}', '{\"b\": 2}')", '{"a":1,"b":2}'),
        on("(STRING...) -> STRING", _concat, nulls=True),
    ),
    scalar(
        "TO_JSON_STRING",
        "json",
        "Writes any value as JSON; the members of structs and maps are sorted by name.",
        ("TO_JSON_STRING(STRUCT(b := 1, a := 'x'))", '{"A":"x","B":1}'),
        on("(T) -> STRING", bind=lambda bound: json_writer(bound.type(0)), nulls=True),
    ),
)
