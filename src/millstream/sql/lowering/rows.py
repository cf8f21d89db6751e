"""Makes rows of records: the columns of the key, the headers, the time and the window beside those of the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.records import Headers, Record, Windowed
from millstream.dsl.processors import FixedKeyProcessor
from millstream.sql.catalog.sources import ROWOFFSET, ROWPARTITION, ROWTIME, WINDOWSTART, DataSource

Row = dict[str, Any]


def header_value(headers: Headers, wanted: str | None) -> Any:
    """Returns the last header of a key, or all headers if there is no key; as the value of a column."""
    if wanted is None:
        return [{"KEY": name, "VALUE": value} for name, value in headers]
    return next((value for name, value in reversed(headers) if name == wanted), None)


class RowBuilder:
    """Makes the rows of a source that a query needs.

    Attributes:
        columns: (role, name in the source, name in rows) of each column.
        plain: Rows are values as they are; they may have more columns.
    """

    pure = True

    def __init__(self, source: DataSource, columns: Sequence[tuple[str, str, str]]) -> None:
        self.columns = tuple(columns)
        self.keys = tuple(column.name for column in source.key)
        self.headers = {column.name: column.header for column in source.headers}
        self.size = None if source.window is None else source.window.size
        others = [(role, internal) for role, name, internal in self.columns if role != "VALUE" or name != internal]
        self.plain = not others
        self._added_key = others[0][1] if len(self.keys) == len(others) == 1 and others[0][0] == "KEY" else None

    @property
    def needs_record(self) -> bool:
        """Whether rows have columns of the record: its time, offset or partition."""
        return any(role == "PSEUDO" for role, _name, _internal in self.columns)

    @property
    def needs_headers(self) -> bool:
        """Whether rows have columns with headers."""
        return any(role == "HEADER" for role, _name, _internal in self.columns)

    def row(self, key: Any, value: Row | None, headers: Headers = (), pseudo: Row | None = None) -> Row | None:
        """Returns the row; None for a null value."""
        if value is None or self.plain:
            return value
        if self._added_key is not None:
            return {**value, self._added_key: key.key if isinstance(key, Windowed) else key}
        row: Row = {}
        for role, name, internal in self.columns:
            if role == "VALUE":
                row[internal] = value[name]
            elif role == "KEY":
                row[internal] = self._key(key, name)
            elif role == "WINDOW":
                row[internal] = key.start if name == WINDOWSTART else self._end(key)
            elif role == "HEADER":
                row[internal] = header_value(headers, self.headers[name])
            elif pseudo is not None:
                row[internal] = pseudo[name]
        return row

    def _end(self, key: Any) -> Any:
        """The end of the window: a join reads keys with the window size of its left side."""
        return key.end if self.size is None else key.start + self.size

    def _key(self, key: Any, name: str) -> Any:
        plain = key.key if isinstance(key, Windowed) else key
        if len(self.keys) == 1 or plain is None:
            return plain
        return plain[self.keys.index(name)]

    def __call__(self, key: Any, value: Row | None) -> Row | None:
        """Returns the row of a key and a value."""
        return self.row(key, value)

    def for_all(self, keys: Sequence[Any], values: Sequence[Row | None]) -> list[Row | None]:
        """Returns the rows of keys and values."""
        name = self._added_key
        if name is None or None in values:
            return list(map(self, keys, values))
        return [
            {**value, name: key.key if isinstance(key, Windowed) else key}  # type: ignore[dict-item]
            for key, value in zip(keys, values, strict=True)
        ]


class RowBuilderWithHeaders(RowBuilder):
    """Makes rows with columns of headers."""

    for_all = None  # type: ignore[assignment]  # the columns that it takes do not contain headers

    def __call__(self, key: Any, value: Row | None, *, headers: Headers) -> Row | None:  # type: ignore[override]
        """Returns the row of a key, a value and headers."""
        return self.row(key, value, headers)


class RowProcessor(FixedKeyProcessor[Any, Any, Any]):
    """Makes rows with the time, the partition and the offset of their record."""

    def __init__(self, builder: RowBuilder) -> None:
        self.builder = builder

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards the row of a record."""
        metadata = self.context.record_metadata
        pseudo = {
            ROWTIME: record.timestamp,
            ROWPARTITION: metadata.partition if metadata is not None else 0,
            ROWOFFSET: metadata.offset if metadata is not None else 0,
        }
        row = self.builder.row(record.key, record.value, record.headers, pseudo)
        self.context.forward(record.with_value(row))
