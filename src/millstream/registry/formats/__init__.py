"""The types of schemas that the embedded registry parses and compares: see `format_of`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from millstream.errors import InvalidSchemaError
from millstream.registry.formats.problems import Finding, Sides

TYPES = ("AVRO", "JSON", "PROTOBUF")


class SchemaFormat(Protocol):
    """Parses, normalizes and compares the schemas of one type. What `parse` returns is known to the format only.

    Attributes:
        keeps_normal: Whether the normal form is a schema, which the registry keeps on request.
    """

    keeps_normal: bool

    def parse(self, text: str, references: Sequence[tuple[str, str]]) -> Any:
        """Parses a schema.

        Args:
            text: The schema.
            references: The names and texts of the schemas that it refers to, each after those that it needs itself.

        Raises:
            InvalidSchemaError: It is not a schema.
        """

    def canonical(self, text: str) -> str:
        """Returns the text that the registry keeps, in which differences of white space do not count."""

    def normal(self, parsed: Any) -> str:
        """Returns a text that is the same for schemas that differ only in form."""

    def compare(self, reader: Any, writer: Any, sides: Sides) -> list[Finding]:
        """Returns why records of the writer's schema cannot be read with the reader's: nothing if they can."""


def format_of(type: str) -> SchemaFormat:
    """Returns the format of a type of schemas. Libraries are imported when first needed.

    Raises:
        InvalidSchemaError: There is no such type.
        SetupError: Its library is not installed.
    """
    if type == "AVRO":
        from millstream.registry.formats.avro import AvroFormat  # noqa: PLC0415  (other types do not need it)

        return AvroFormat()
    if type == "JSON":
        from millstream.registry.formats.json_schema import JsonFormat  # noqa: PLC0415

        return JsonFormat()
    if type == "PROTOBUF":
        from millstream.registry.formats.protobuf import ProtobufFormat  # noqa: PLC0415

        return ProtobufFormat()
    raise InvalidSchemaError(f"there is no schema type {type!r}", hint=f"use one of: {', '.join(TYPES)}")
