"""Explains why a schema is not compatible, for any registry, by the rules of the embedded one."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.errors import IncompatibleSchemaError, MillstreamError
from millstream.registry.api import Reference, Schema, SchemaRegistry
from millstream.registry.formats import format_of
from millstream.registry.formats.problems import Finding, Sides
from millstream.registry.levels import find_problems


class Parsed(NamedTuple):
    """A parsed schema and its type."""

    type: str
    content: Any


def explain(registry: SchemaRegistry, subject: str, schema: Schema) -> list[str]:
    """Returns the reasons, or nothing if the embedded registry would accept the schema, or cannot parse it."""
    try:
        versions = [
            (number, _parse(registry, registry.version(subject, number).schema))
            for number in registry.versions(subject)
        ]
        return find_problems(registry.compatibility(subject), _parse(registry, schema), versions, compare)
    except MillstreamError:
        return []


def compare(reader: Parsed, writer: Parsed, sides: Sides) -> list[Finding]:
    """Compares two parsed schemas, which may be of different types."""
    if reader.type != writer.type:
        return [Finding("", f"{sides.writer} is a schema of type {writer.type}, {sides.reader} of type {reader.type}")]
    return format_of(reader.type).compare(reader.content, writer.content, sides)


def incompatible(subject: str, level: str, problems: list[str]) -> IncompatibleSchemaError:
    """Returns the error for a schema that is not compatible with earlier versions of its subject."""
    lines = "".join(f"\n    {problem}" for problem in problems)
    message = f"the schema is not compatible with subject {subject!r}, whose level is {level}:{lines}"
    hint = f"change the schema; or the level: millstream schemas register {subject} FILE --compatibility NONE"
    return IncompatibleSchemaError(message, hint=hint, problems=tuple(problems))


def _parse(registry: SchemaRegistry, schema: Schema) -> Parsed:
    texts: dict[Reference, str] = {}
    for reference in schema.references:
        _collect(registry, reference, texts)
    references = [(reference.name, text) for reference, text in texts.items()]
    return Parsed(schema.type, format_of(schema.type).parse(schema.text, references))


def _collect(registry: SchemaRegistry, reference: Reference, texts: dict[Reference, str]) -> None:
    if reference not in texts:
        schema = registry.version(reference.subject, reference.version).schema
        for inner in schema.references:
            _collect(registry, inner, texts)
        texts[reference] = schema.text
