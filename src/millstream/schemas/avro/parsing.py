"""Parses Avro schemas, with the schemas that they refer to."""

from __future__ import annotations

import copy
import json
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


def is_recursive(schema: ParsedSchema) -> bool:
    """Whether values of the schema can contain values of the same record."""
    return any(_refers(record, {name}, set(), schema.named) for name, record in schema.named.items())


def _refers(schema: Any, targets: set[str], seen: set[str], named: dict[str, Any]) -> bool:
    for item in inner(schema):
        part = item
        name = part if isinstance(part, str) else part.get("name") if isinstance(part, dict) else None
        if name in targets:
            return True
        if name is not None and name in named:
            if name in seen:
                continue
            seen.add(name)
            part = named[name]
        if _refers(part, targets, seen, named):
            return True
    return False


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
