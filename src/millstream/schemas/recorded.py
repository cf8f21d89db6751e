"""The schemas that the state of an application records, as plain data: see `SchemaRecord`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from millstream.schemas.serde import SchemaSerde
from millstream.serde.api import Serde, innermost

PlainVersion: TypeAlias = dict[str, Any]
"""A schema: its ``text``, and if it has any, the names and texts of its ``references``."""


class SchemaRecord(NamedTuple):
    """The record of a subject in the state of an application.

    Attributes:
        id: The id with which the application writes keys.
        references: The names and texts of the schemas to which the serde's own schema refers.
        earlier: The schemas with which the application wrote rows before.
    """

    id: int | None = None
    references: tuple[tuple[str, str], ...] = ()
    earlier: tuple[PlainVersion, ...] = ()


def schema_serdes(serde: Serde[Any]) -> Iterator[SchemaSerde[Any]]:
    """Yields the serdes with schemas of which a serde consists."""
    return (part for part in innermost(serde) if isinstance(part, SchemaSerde))


def plain_schemas(serde: Serde[Any]) -> list[dict[str, Any]]:
    """Returns the schemas of a serde as plain data that JSON can hold.

    Each has its ``type``. With a registry it has the ``subject``, and for keys the ``id``, if it is known;
    otherwise it is ``bare``. ``versions`` are the schemas with which the application has written, the last one is that
    of the serde. A serde without a schema of its own has none.
    """
    return [_plain(part) for part in schema_serdes(serde)]


def _plain(serde: SchemaSerde[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"type": serde.type}
    record: SchemaRecord = serde.recorded or SchemaRecord()
    if serde.is_bare:
        data["bare"] = True
    elif serde.known_subject is not None:
        data["subject"] = serde.known_subject
    if record.id is not None:
        data["id"] = record.id
    if serde.schema is not None:
        references = record.references or serde.own_references()
        version = plain_version(serde.schema.text, references)
        data["versions"] = [*(each for each in record.earlier if each != version), version]
    return data


def plain_version(text: str, references: Sequence[tuple[str, str]]) -> PlainVersion:
    """Returns a schema as plain data."""
    return {"text": text, **({"references": [list(each) for each in references]} if references else {})}
