"""Explains why a schema is not compatible, for any registry, by the rules of the embedded one."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.errors import IncompatibleSchemaError, InvalidSchemaError, MillstreamError
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
        return find_problems(effective_level(registry, subject), _parse(registry, schema), versions, compare)
    except MillstreamError:
        return []


def effective_level(registry: SchemaRegistry, subject: str) -> str:
    """Returns the compatibility level that holds for a subject, if the registry refuses a schema."""
    level = registry.compatibility(subject)
    # Apicurio reports NONE for a subject that has the global level.
    return registry.compatibility() if level == "NONE" else level


class Breaks(NamedTuple):
    """The readers that a change of a schema breaks.

    Attributes:
        backward: Why the new schema cannot read records of the old one.
        forward: Why the old schema cannot read records of the new one.
    """

    backward: list[str]
    forward: list[str]


def breaks(registry: SchemaRegistry, old: Schema, new: Schema, old_name: str, new_name: str) -> Breaks:
    """Returns what a change of a schema breaks.

    Raises:
        InvalidSchemaError: One of the two is not a schema.
    """
    before, after = _parse(registry, old), _parse(registry, new)
    return Breaks(
        [str(finding) for finding in compare(after, before, Sides(reader=new_name, writer=old_name))],
        [str(finding) for finding in compare(before, after, Sides(reader=old_name, writer=new_name))],
    )


def compare(reader: Parsed, writer: Parsed, sides: Sides) -> list[Finding]:
    """Compares two parsed schemas, which may be of different types."""
    if reader.type != writer.type:
        return [Finding("", f"{sides.writer} is a schema of type {writer.type}, {sides.reader} of type {reader.type}")]
    try:
        return format_of(reader.type).compare(reader.content, writer.content, sides)
    except RecursionError:
        raise InvalidSchemaError(f"{sides.reader} and {sides.writer} are nested too deeply to be compared") from None


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
