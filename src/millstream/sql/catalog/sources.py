"""Streams and tables, as the catalog knows them."""

from __future__ import annotations

from millstream.core.frozen import Value
from millstream.sql.types import BIGINT, INTEGER, SqlType

ROWTIME, ROWPARTITION, ROWOFFSET = "ROWTIME", "ROWPARTITION", "ROWOFFSET"
WINDOWSTART, WINDOWEND = "WINDOWSTART", "WINDOWEND"

PSEUDO_COLUMNS: dict[str, SqlType] = {ROWTIME: BIGINT, ROWPARTITION: INTEGER, ROWOFFSET: BIGINT}
"""The columns that every source has besides its own."""
WINDOW_BOUNDS: dict[str, SqlType] = {WINDOWSTART: BIGINT, WINDOWEND: BIGINT}
"""The columns that a windowed source has besides its own."""
SYSTEM_COLUMNS = frozenset({*PSEUDO_COLUMNS, *WINDOW_BOUNDS})
"""The names that no column of a source may have."""


class Column(Value):
    """A column of a key or value."""

    name: str
    type: SqlType

    def __str__(self) -> str:
        return f"`{self.name}` {self.type}"


class HeaderColumn(Value):
    """A column that holds all headers of a record, or the last header of one key."""

    name: str
    type: SqlType
    header: str | None = None

    def __str__(self) -> str:
        role = "HEADERS" if self.header is None else f"HEADER('{self.header}')"
        return f"`{self.name}` {self.type} {role}"


class WindowInfo(Value):
    """The window of a source's keys; only session windows have no fixed size."""

    kind: str
    size: int | None = None


class FormatInfo(Value):
    """A format with its properties: delimiter, full name of the schema, ….

    Attributes:
        name: The name of the format, in upper case.
        properties: The properties of the format, sorted by name.
        wrap: Whether a single column is wrapped in an object or record; None: the format's own way.
        schema_id: The id of the schema to write with.
    """

    name: str
    properties: tuple[tuple[str, str], ...] = ()
    wrap: bool | None = None
    schema_id: int | None = None


class TimestampInfo(Value):
    """The column that holds the time of a record, and the pattern of its text."""

    column: str
    pattern: str | None = None


class DataSource(Value):
    """A stream or table.

    Attributes:
        name: Its name.
        kind: STREAM or TABLE.
        key: The key columns.
        value: The value columns.
        headers: The columns that hold headers.
        topic: The topic.
        key_format: How keys are written.
        value_format: How values are written.
        window: The window of the keys.
        timestamp: The column with the time of a record.
        partitions: The number of partitions of the topic, if the statement gives one.
        read_only: It was created with SOURCE.
        query: The id of the query that writes it.
        statement: The text of the statement that created it.
    """

    name: str
    kind: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    topic: str
    key_format: FormatInfo
    value_format: FormatInfo
    headers: tuple[HeaderColumn, ...] = ()
    window: WindowInfo | None = None
    timestamp: TimestampInfo | None = None
    partitions: int | None = None
    read_only: bool = False
    query: str | None = None
    statement: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.kind == "TABLE"

    def schema_text(self) -> str:
        """The columns as messages and ASSERT show them."""
        role = "PRIMARY KEY" if self.is_table else "KEY"
        parts = [f"{column} {role}" for column in self.key]
        return ", ".join((*parts, *map(str, self.value), *map(str, self.headers)))
