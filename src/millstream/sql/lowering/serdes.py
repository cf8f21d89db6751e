"""The serdes of a query: formats for topics, an exact form for stores and repartition topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.core.frozen import replace
from millstream.serde import Serde, session_windowed, time_windowed
from millstream.sql.catalog.sources import Column, DataSource, FormatInfo
from millstream.sql.formats import FULL_NAME, FormatSerde, RowSerde, format_of
from millstream.sql.formats.internal import StateSerde
from millstream.sql.statements.schemas import default_wrapping
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import text_of
from millstream.sql.types import SqlType, StructType


class SourceSerdes:
    """The serdes of sources, sinks and stores.

    Attributes:
        properties: The properties of the session.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties = properties

    def key(self, source: DataSource) -> Serde[Any]:
        """The serde of a source's keys, with their window."""
        inner: Serde[Any] = FormatSerde(_format_of_key(source), self._key_columns(source), is_key=True)
        if source.window is None:
            return inner
        if source.window.kind == "SESSION":
            return session_windowed(inner)
        return time_windowed(inner, source.window.size)

    def _key_columns(self, source: DataSource) -> tuple[Column, ...]:
        """The key columns; the name of a column that is not written is left out, so that equal bytes are one serde."""
        format_ = format_of(source.key_format.name)
        if format_.wraps(source.key, source.key_format.wrap, is_key=True):
            return source.key
        return tuple(Column(f"KEY_{index}", column.type) for index, column in enumerate(source.key))

    def value(self, source: DataSource) -> Serde[Any]:
        """The serde of a source's values."""
        return FormatSerde(default_wrapping(source.value_format, self.properties), source.value, is_key=False)

    def inner_key(self, columns: tuple[Column, ...], groups: Sequence[tree.Expression] = ()) -> Serde[Any]:
        """The serde of keys in stores and repartition topics.

        A single column has the bytes of Kafka's serializers, where they exist: windows that close at the same time
        are emitted in the order of these bytes. Keys of groups have their expressions as names, so that the store of an
        aggregation is another one if its groups change.
        """
        names = [text_of(group) for group in groups] or [f"KEY_{index}" for index in range(len(columns))]
        named = [Column(name, column.type) for name, column in zip(names, columns, strict=True)]
        if len(named) == 1 and named[0].type in (format_of("KAFKA").types or ()):
            return FormatSerde(FormatInfo("KAFKA"), named, is_key=True)
        return RowSerde(named, is_key=True)

    def row(self, columns: Mapping[str, SqlType]) -> Serde[Any]:
        """The serde of rows in stores and repartition topics."""
        return RowSerde([Column(name, type_) for name, type_ in columns.items()], is_key=False)

    def state(self, columns: Mapping[str, SqlType]) -> Serde[Any]:
        """The serde of the states of aggregate functions."""
        return StateSerde([Column(name, type_) for name, type_ in columns.items()])


def _format_of_key(source: DataSource) -> FormatInfo:
    """The format of keys; the name of a record is left out where there is none, so that equal bytes are one serde."""
    spec = source.key_format
    records = any(isinstance(type_, StructType) for column in source.key for type_ in column.type.walk())
    if spec.name != "AVRO" or records or len(source.key) != 1:
        return spec
    return replace(spec, properties=tuple(item for item in spec.properties if item[0] != FULL_NAME))
