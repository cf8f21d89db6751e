"""Tables of test files: the rows of a table are the last records of each key in its topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from millstream.core.records import Windowed
from millstream.errors import MillstreamError
from millstream.registry.api import SchemaRegistry
from millstream.sql.catalog.sources import DataSource
from millstream.sql.lowering.rows import header_value
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.timestamps import TimestampReader
from millstream.sql.queries.lookups import Bounds
from millstream.sql.requests.deployment import TableRow
from millstream.sql.testing import payloads
from millstream.sql.testing.engine import StoredRecord


class TopicTable:
    """The rows of a table, found by the bytes of their keys."""

    def __init__(
        self, source: DataSource, records: Sequence[StoredRecord], serdes: SourceSerdes, registry: SchemaRegistry
    ) -> None:
        self._source = source
        self._key = payloads.bound(serdes.key(source), source.topic, registry, is_key=True)
        self._value = payloads.bound(serdes.value(source), source.topic, registry, is_key=False)
        self._time = None if source.timestamp is None else TimestampReader(source)
        self._rows: dict[bytes, TableRow] = {}
        self._windows: dict[str, dict[bytes, TableRow]] = {}
        for record in records:
            self._add(record)

    def _add(self, record: StoredRecord) -> None:
        if record.key is None:
            return
        try:
            key, value = self._key.deserialize(record.key), self._value.deserialize(record.value)
        except MillstreamError:
            return  # the query that materializes the table skips it, too
        time = record.timestamp if self._time is None or value is None else self._time(key, value)
        if time < 0:
            return
        window = (key.start, key.end) if isinstance(key, Windowed) else None
        plain: Any = key.key if isinstance(key, Windowed) else key
        parts = (plain,) if len(self._source.key) == 1 else tuple(plain)
        self._rows.pop(record.key, None)
        of_key = self._windows.setdefault(repr(parts), {})
        of_key.pop(record.key, None)
        if value is not None:
            headers = {item.name: header_value(record.headers, item.header) for item in self._source.headers}
            row = TableRow(parts, {**value, **headers}, time, window)
            self._rows[record.key] = of_key[record.key] = row

    def get(self, key: tuple[Any, ...]) -> TableRow | None:
        """Returns the row of a key."""
        data = self._key.serialize(key[0] if len(self._source.key) == 1 else key)
        return None if data is None else self._rows.get(data)

    def windows(self, key: tuple[Any, ...], start: Bounds, end: Bounds) -> Iterable[TableRow]:
        """Returns the rows of a key whose windows start and end within bounds."""
        rows = [
            row
            for row in self._windows.get(repr(key), {}).values()
            if row.window is not None and row.window[0] in start and row.window[1] in end
        ]
        return sorted(rows, key=lambda row: row.window or (0, 0))

    def between(self, low: Any | None, high: Any | None) -> Iterable[TableRow]:
        """Returns the rows whose key is within a range."""
        first = None if low is None else self._key.serialize(low)
        last = None if high is None else self._key.serialize(high)
        for data in sorted(self._rows):
            if (first is None or data >= first) and (last is None or data <= last):
                yield self._rows[data]

    def scan(self) -> Iterable[TableRow]:
        """Returns all rows, in the order of the bytes of their keys."""
        if self._source.window is not None and self._source.window.kind == "SESSION":
            return sorted(self._rows.values(), key=lambda row: (repr(row.key), row.window))
        return [self._rows[data] for data in sorted(self._rows)]
