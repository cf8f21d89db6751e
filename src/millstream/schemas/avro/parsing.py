"""Parses Avro schemas, with the schemas that they refer to."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from millstream.errors import InvalidSchemaError
from millstream.registry.api import Schema
from millstream.schemas.libraries import library
from millstream.schemas.serde import Parts
from millstream.text.escaping import plain_text

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DEEPEST = 300
"""The nesting of the JSON of a schema. fastavro parses schemas by recursion, in C."""

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
    """Returns the text of a schema: of a text, a path, or the JSON of a schema as Python data.

    Raises:
        InvalidSchemaError: The file cannot be read.
    """
    if isinstance(schema, str) and schema in PRIMITIVES:
        return json.dumps(schema)
    if isinstance(schema, str) and schema.lstrip()[:1] in {"{", "[", '"'}:
        return schema
    if isinstance(schema, str | Path):
        try:
            return Path(schema).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise InvalidSchemaError(
                f"avro: {str(schema)[:200]!r} is neither the text of a schema nor a file that can be read: "
                f"{plain_text(error)}",
                hint="give the JSON text of a schema, or the path of a .avsc file",
            ) from None
    return json.dumps(schema)


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
        texts = {name: _loaded(part.text) for name, part in parts}
        own = _loaded(schema.text)
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


def _loaded(text: str) -> Any:
    data = json.loads(text)
    parts, depth = [data], 0
    while parts:
        depth += 1
        if depth > _DEEPEST:
            raise InvalidSchemaError(f"the Avro schema is nested more than {_DEEPEST} levels deep")
        parts = [
            item
            for part in parts
            if isinstance(part, dict | list)
            for item in (part.values() if isinstance(part, dict) else part)
        ]
    return data


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
