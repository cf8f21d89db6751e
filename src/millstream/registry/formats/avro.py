"""Avro schemas in a registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from millstream.registry.formats.avro_compatibility import compare_avro
from millstream.registry.formats.avro_parser import (
    PRIMITIVES,
    AvroField,
    AvroSchema,
    AvroType,
    parse_avro,
    parse_json,
)
from millstream.registry.formats.problems import Finding, Sides


class AvroFormat:
    """Parses, normalizes and compares Avro schemas."""

    keeps_normal = True

    def parse(self, text: str, references: Sequence[tuple[str, str]]) -> AvroSchema:
        """Parses a schema.

        Raises:
            InvalidSchemaError: It is not a schema.
        """
        return parse_avro(text, [referenced for _name, referenced in references])

    def canonical(self, text: str) -> str:
        """Returns the text without white space between its tokens, as Confluent's registry keeps it."""
        return compact(parse_json(text))

    def normal(self, parsed: AvroSchema) -> str:
        """Returns a text that is the same for schemas that differ only in form.

        It has full names, attributes in a fixed order, and no objects around plain names of types.
        """
        return compact(_normal(parsed.root, set(parsed.referenced)))

    def compare(self, reader: AvroSchema, writer: AvroSchema, sides: Sides) -> list[Finding]:
        """Returns why records of the writer's schema cannot be read with the reader's."""
        return compare_avro(reader.root, writer.root, sides)


def compact(node: Any) -> str:
    """Returns JSON without white space between its tokens."""
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def _normal(node: AvroType, defined: set[str]) -> Any:
    if node.kind == "union":
        return [_normal(branch, defined) for branch in node.branches]
    rest = {key: node.properties[key] for key in sorted(node.properties)}
    if node.kind in PRIMITIVES:
        return {"type": node.kind, **rest} if rest else node.kind
    if node.items is not None:
        return {"type": node.kind, "items" if node.kind == "array" else "values": _normal(node.items, defined), **rest}
    if node.name in defined:
        return node.name
    defined.add(node.name)
    head: dict[str, Any] = {"type": node.kind, "name": node.name}
    if node.aliases:
        head["aliases"] = sorted(node.aliases)
    if node.kind == "enum":
        head["symbols"] = list(node.symbols)
        if node.default is not None:
            head["default"] = node.default
    elif node.kind == "fixed":
        head["size"] = node.size
    else:
        head["fields"] = [_normal_field(field, defined) for field in node.fields]
    return {**head, **rest}


def _normal_field(field: AvroField, defined: set[str]) -> dict[str, Any]:
    node: dict[str, Any] = {"name": field.name, "type": _normal(field.type, defined)}
    if field.has_default:
        node["default"] = field.default
    if field.aliases:
        node["aliases"] = sorted(field.aliases)
    return {**node, **{key: field.properties[key] for key in sorted(field.properties)}}
