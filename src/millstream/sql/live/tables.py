"""The committed rows of a table, in the view of its store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millstream.core.records import Windowed
from millstream.errors import UnknownStoreError
from millstream.sql.catalog.sources import DataSource
from millstream.sql.queries.lookups import Bounds
from millstream.sql.requests.deployment import TableRow

_LAST_TIME = 2**63 - 1


class LiveTable:
    """Reads the rows of a table. Implements `MaterializedTable`.

    Args:
        source: The table.
        open_store: Opens the view of its store, with timestamps.
    """

    def __init__(self, source: DataSource, open_store: Callable[[], Any]) -> None:
        self._source = source
        self._open = open_store

    def get(self, key: tuple[Any, ...]) -> TableRow | None:
        """Returns the row of a key."""
        store = self._store()
        stored = key[0] if len(self._source.key) == 1 else key
        value = None if store is None else store.get(stored)
        return None if value is None else self._row(stored, value)

    def windows(self, key: tuple[Any, ...], start: Bounds, end: Bounds) -> Iterable[TableRow]:
        """Returns the rows of a key whose windows start and end within bounds."""
        store, plain = self._store(), key[0] if len(self._source.key) == 1 else key
        if store is None:
            return []
        rows = (self._row(at, value) for at, value in store.all() if at.key == plain)
        chosen = [row for row in rows if row.window and row.window[0] in start and row.window[1] in end]
        return sorted(chosen, key=lambda row: row.window or (0, 0))

    def between(self, low: Any | None, high: Any | None) -> Iterable[TableRow]:
        """Yields the rows whose key is within a range, read as they are consumed."""
        store = self._store()
        return self._rows(() if store is None else store.range(low, high))

    def scan(self) -> Iterable[TableRow]:
        """Yields all rows, read as they are consumed."""
        store = self._store()
        return self._rows(() if store is None else store.all())

    def _rows(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[TableRow]:
        for key, value in entries:
            yield self._row(key, value)

    def _store(self) -> Any:
        """The store; None: the query has not committed anything yet."""
        try:
            return self._open()
        except UnknownStoreError:
            return None

    def _row(self, key: Any, stored: Any) -> TableRow:
        window = (key.start, key.end) if isinstance(key, Windowed) else None
        plain = key.key if isinstance(key, Windowed) else key
        parts = (plain,) if len(self._source.key) == 1 else tuple(plain)
        headers = dict.fromkeys(item.name for item in self._source.headers)
        return TableRow(parts, {**stored.value, **headers}, stored.timestamp, window)
