"""Parses Avro schemas, with the schemas that they refer to."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from millstream.errors import InvalidSchemaError
from millstream.registry.api import Schema
from millstream.schemas.json_text import load_schema_json, schema_json
from millstream.schemas.libraries import library
from millstream.schemas.serde import Parts
from millstream.text.escaping import plain_text

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_ROOT = "millstream.root"


class ParsedSchema(NamedTuple):
    """A schema as fastavro takes it.

    Attributes:
        root: The schema.
        named: The records, enums and fixed types in it, by full name.
    """

    root: Any
    named: dict[str, Any]

    @property
    def name(self) -> str | None:
        """The full name of the record, or the name of the primitive type; None for a union."""
        if isinstance(self.root, Mapping):
            return str(self.root.get("name") or self.root["type"])
        return self.root if isinstance(self.root, str) else None


def text_of(schema: Any) -> str:
    """Returns the text of a schema: of a text, a path, the name of a primitive type, or of Python data."""
    is_name = isinstance(schema, str) and schema in PRIMITIVES
    return json.dumps(schema) if is_name else schema_json("avro", schema, ".avsc")


def parsed(schema: Schema, parts: Parts = ()) -> ParsedSchema:
    """Parses a schema.

    Args:
        schema: The schema.
        parts: The schemas to which it refers, by name.

    Raises:
        InvalidSchemaError: It is not a valid schema.
    """
    fastavro: Any = library("fastavro", "fastavro", "avro")
    try:
        texts = {name: load_schema_json(part.text) for name, part in parts}
        own = load_schema_json(schema.text)
        if texts:
            repository = _repository({**texts, _ROOT: own})
            root = library("fastavro.schema", "fastavro", "avro").load_schema(_ROOT, repo=repository)
        else:
            root = fastavro.parse_schema(own)
        named: dict[str, Any] = {}
        fastavro.parse_schema(root, named)
    except InvalidSchemaError:
        raise
    except Exception as error:  # fastavro raises errors of many types
        reason = plain_text(error) or type(error).__name__
        raise InvalidSchemaError(f"not a valid Avro schema: {reason}") from error
    return ParsedSchema(root, named)


def _repository(schemas: dict[str, Any]) -> Any:
    from fastavro.repository import AbstractSchemaRepository, SchemaRepositoryError

    class Repository(AbstractSchemaRepository):
        def load(self, name: str) -> Any:
            if name not in schemas:
                raise SchemaRepositoryError(f"there is no reference named {name}")
            return copy.deepcopy(schemas[name])

    return Repository()


class Shape(NamedTuple):
    """How large values of a schema can be.

    Attributes:
        levels: The levels of records, arrays and maps; infinite if a record can contain itself.
        empty_items: Whether items of an array can take no bytes.
        empty_values: The number of values, in one value of a type, that take no bytes together.
    """

    levels: float
    empty_items: bool
    empty_values: int


def shape_of(schema: ParsedSchema) -> Shape:
    """Returns how large values of a schema can be.

    A schema that a registry sends may be hostile: its types may refer to each other in a chain of any length, and each
    to the next one twice. So this needs no recursion, and visits each type once.
    """
    named, root = schema.named, schema.root
    levels: dict[int, float] = {}
    empty: dict[int, int] = {}  # the values in a value that takes no bytes; 0 if each takes one
    opened: set[int] = set()
    empty_items, todo = False, [root]
    while todo:
        part = _definition(todo[-1], named)
        at = id(part)
        if at in levels:
            todo.pop()
            continue
        parts = [_definition(item, named) for item in inner(part)]
        if at not in opened:
            opened.add(at)
            todo.extend(item for item in parts if id(item) not in opened)
            continue
        todo.pop()
        # A part that is opened but has no levels yet contains this one: the record is recursive.
        deepest = max((levels.get(id(item), math.inf) for item in parts), default=0)
        kind = part["type"] if isinstance(part, dict) else None
        is_record = kind in {"record", "error"}
        levels[at] = deepest + (is_record or kind in {"array", "map"})
        inside = [empty.get(id(item), 1) for item in parts]
        empty_items = empty_items or (kind == "array" and inside[0] > 0)
        if is_record:
            empty[at] = 1 + sum(inside) if all(inside) else 0
        else:
            empty[at] = int(part == "null" or kind == "null" or (kind == "fixed" and part["size"] == 0))
    return Shape(levels[id(_definition(root, named))], empty_items, max(empty.values()))


def _definition(schema: Any, named: dict[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


def inner(schema: Any) -> list[Any]:
    """Returns the schemas of which a schema consists."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    kind = schema["type"]
    if kind in {"record", "error"}:
        return [field["type"] for field in schema["fields"]]
    if kind == "array":
        return [schema["items"]]
    if kind == "map":
        return [schema["values"]]
    return [] if isinstance(kind, str) and (kind in PRIMITIVES or kind in {"enum", "fixed"}) else [kind]
