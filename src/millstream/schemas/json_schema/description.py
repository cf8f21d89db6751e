"""Describes the values of JSON Schemas."""

from __future__ import annotations

from typing import Any

from millstream.core.frozen import replace
from millstream.expr import description
from millstream.expr.description import UNKNOWN, Description, Limit
from millstream.expr.types import ANY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, DataType

_TYPES: dict[str, DataType] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": BIGINT,
    "number": DOUBLE,
    "string": STRING,
}
_OPEN = ("patternProperties", "allOf", "if", "dependentSchemas", "$dynamicRef")
"""Words by which an object may have properties that `properties` does not have."""

_TAGS = "confluent:tags"


def describe_json(schema: Any) -> Description:
    """Returns the description of the values of a schema.

    An object has the properties that the schema declares. If it says explicitly that there may be others
    (``additionalProperties``), its fields are not known to expressions.
    """
    return _Describing(schema).value(schema, ())


class _Describing:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._limit = Limit()

    def value(self, schema: Any, inside: tuple[str, ...]) -> Description:
        if not isinstance(schema, dict):
            return UNKNOWN
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference) if self._limit.allows(reference, inside) else None
            return UNKNOWN if target is None else self._noted(self.value(target, (*inside, reference)), schema)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                members = [each for each in schema[word] if each != {"type": "null"}]
                parts = [self.value(member, inside) for member in members]
                return self._noted(description.union(parts, nullable=len(members) < len(schema[word])), schema)
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        others = [kind for kind in kinds if kind != "null"]
        parts = [self._of_kind(kind, schema, inside) for kind in others]
        return self._noted(description.union(parts, nullable="null" in kinds), schema)

    def _of_kind(self, kind: Any, schema: dict[str, Any], inside: tuple[str, ...]) -> Description:
        if kind == "array":
            items = schema.get("items")
            return description.array(self.value(items, inside) if "prefixItems" not in schema else UNKNOWN)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, inside)
        return Description(_TYPES[kind]) if kind in _TYPES else UNKNOWN

    def _object(self, schema: dict[str, Any], inside: tuple[str, ...]) -> Description:
        title = schema.get("title")
        name = title if isinstance(title, str) else None
        others, properties = schema.get("additionalProperties", False), schema.get("properties")
        if not isinstance(properties, dict):
            is_map = isinstance(others, dict) and not any(word in schema for word in _OPEN)
            return description.mapping(self.value(others, inside)) if is_map else UNKNOWN
        required = schema.get("required", ())
        fields = [
            (field, part if field in required else replace(part, nullable=True))
            for field, part in ((field, self.value(each, inside)) for field, each in properties.items())
        ]
        described = description.record(name, fields)
        is_open = others is not False or any(word in schema for word in _OPEN)
        return replace(described, type=ANY) if is_open else described

    def _noted(self, described: Description, schema: dict[str, Any]) -> Description:
        text, tags = schema.get("description"), schema.get(_TAGS)
        return replace(
            described,
            doc=text if isinstance(text, str) else described.doc,
            tags=tuple(map(str, tags)) if isinstance(tags, list) else described.tags,
        )

    def _target(self, reference: str) -> Any:
        """Returns the schema of a reference inside the same document; None for another one."""
        if not reference.startswith("#"):
            return None
        target = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if name:
                target = target.get(name) if isinstance(target, dict) else None
        return target
