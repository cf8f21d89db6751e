"""What formats ask of columns: which they can carry, how a single column is written, and what a registry knows."""

from __future__ import annotations

from typing import Protocol

from millstream.sql.catalog.properties import SourceProperties
from millstream.sql.catalog.sources import Column, DataSource, FormatInfo
from millstream.sql.syntax import tree


class SchemaRules(Protocol):
    """Checks and completes the columns of sources by their formats."""

    def completed(
        self,
        statement: tree.CreateSource,
        source: tuple[tuple[Column, ...], tuple[Column, ...]],
        formats: tuple[FormatInfo, FormatInfo],
        properties: SourceProperties,
    ) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """Returns key and value columns; those that a statement leaves out come from the schema registry."""
        ...

    def with_features(
        self, format_: FormatInfo, columns: tuple[Column, ...], properties: SourceProperties, *, is_key: bool
    ) -> FormatInfo:
        """Returns the format with the properties of the statement that concern it."""
        ...

    def check(self, source: DataSource, at: tree.Position) -> None:
        """Refuses columns that the formats of a source cannot carry."""
        ...
