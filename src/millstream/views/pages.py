"""Rows of views as bytes, page by page: each page continues at a place, and not at a count of rows.

Rows of key-value stores are ordered by key, those of versioned stores by partition and key. Rows of window and session
stores are ordered by bucket (an eighth of the retention), partition, key and time. So a page reads a range of the
table, and not all rows of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sqlite3 import Connection
from typing import Any, NamedTuple

from millstream.state.codec import FOREVER
from millstream.views.checksums import RowChecksum, row_checksum, verify, version_numbers
from millstream.views.integrity import read_times
from millstream.views.tables import StoreEntry

_ROWS = "SELECT partition, key, value, timestamp, checksum FROM view_rows WHERE store = ?"
_WINDOWS = (
    "SELECT key, time, rank, value, timestamp, bucket, checksum FROM view_windows"
    " WHERE store = ? AND partition = ? AND bucket = ?"
)
_VERSIONS = "SELECT key, value, timestamp, until, ended, checksum FROM view_versions WHERE store = ? AND partition = ?"

Place = tuple[int, bytes, int, int]
"""The place of a row: partition, key, time and rank. The time of a key-value store is 0."""


class Selection(NamedTuple):
    """The rows that a page is taken from.

    Attributes:
        low: The least key.
        below: The key below which all keys are; None: there is no bound.
        time_from: The least time: the start of windows, the end of sessions, the end of versions.
        time_to: The greatest time: the start of windows, sessions and versions.
        as_of: Of a versioned store: only the versions that are valid at this time.
        reverse: The greatest rows first.
    """

    low: bytes = b""
    below: bytes | None = None
    time_from: int = -FOREVER
    time_to: int = FOREVER - 1
    as_of: int | None = None
    reverse: bool = False


class ViewRow(NamedTuple):
    """A row of a view.

    Attributes:
        partition: Its partition.
        key: Its key.
        value: Its value.
        timestamp: Its timestamp, or -1.
        time: The start of a window, the end of a session, the beginning of a version; 0 in a key-value store.
        rank: The start of a session; the number of a row among those of its window.
        until: The end of a version; None if it is valid.
    """

    partition: int
    key: bytes
    value: bytes
    timestamp: int
    time: int = 0
    rank: int = 0
    until: int | None = None

    @property
    def place(self) -> Place:
        """The place of the row."""
        return self.partition, self.key, self.time, self.rank


class Page(NamedTuple):
    """Rows of a selection, and whether there are more after them."""

    rows: list[ViewRow]
    has_more: bool


def read_page(
    connection: Connection,
    store: StoreEntry,
    selection: Selection,
    limit: int,
    after: Place | None = None,
    most_bytes: int | None = None,
) -> Page:
    """Returns the first rows of a selection, or those after a place, in a read transaction of the caller.

    Args:
        connection: The connection.
        store: The store.
        selection: The selection.
        limit: The largest number of rows.
        after: The place of the last row of the page before.
        most_bytes: The page ends with the row that reaches this size of keys and values.

    Raises:
        CorruptViewError: A row is damaged.
    """
    rows: list[ViewRow] = []
    size = 0
    for row in _ROWS_OF[store.kind](connection, store, selection, limit + 1, after):
        if len(rows) == limit or (most_bytes is not None and size >= most_bytes):
            return Page(rows, True)
        rows.append(row)
        size += len(row.key) + len(row.value)
    return Page(rows, False)


def read_row(connection: Connection, store: StoreEntry, key: bytes) -> ViewRow | None:
    """Returns the row of a key in a key-value store.

    Raises:
        CorruptViewError: It is damaged.
    """
    row = connection.execute(_ROWS + " AND key = ? ORDER BY partition LIMIT 1", (store.id, key)).fetchone()
    if row is None:
        return None
    partition, key, value, timestamp, stored = row
    verify(_what(store), stored, row_checksum(store.id, partition, 1), key, value, timestamp)
    return ViewRow(partition, key, value, timestamp)


def _rows(
    connection: Connection, store: StoreEntry, selection: Selection, limit: int, after: Place | None
) -> Iterator[ViewRow]:
    clauses = _Clauses(store.id)
    clauses.keys(selection, after)
    if after is not None:
        clauses.add(f"(key, partition) {'<' if selection.reverse else '>'} (?, ?)", after[1], after[0])
    clauses.order("key", "partition", reverse=selection.reverse)
    checksums: dict[int, RowChecksum] = {}
    for partition, key, value, timestamp, stored in clauses.execute(connection, _ROWS, limit):
        checksum_of = checksums.get(partition)
        if checksum_of is None:
            checksum_of = checksums[partition] = row_checksum(store.id, partition, 1)
        verify(_what(store), stored, checksum_of, key, value, timestamp)
        yield ViewRow(partition, key, value, timestamp)


def _windows(
    connection: Connection, store: StoreEntry, selection: Selection, limit: int, after: Place | None
) -> Iterator[ViewRow]:
    begun = None if after is None else (after[2] // store.width, after[0])
    for bucket, partition, low, high in _segments(connection, store, selection):
        at = (bucket, partition)
        if begun is None or (at < begun if selection.reverse else at > begun):
            yield from _segment(connection, store, selection, (bucket, partition, low, high), limit, None)
        elif at == begun:
            yield from _segment(connection, store, selection, (bucket, partition, low, high), limit, after)


def _segments(connection: Connection, store: StoreEntry, selection: Selection) -> Iterator[tuple[int, int, int, int]]:
    """Yields bucket and partition of each range of the table with visible rows, and the bounds of their times."""
    segments = []
    for partition, time, horizon in read_times(connection, store):
        low, high = max(selection.time_from, horizon + 1), time
        if store.kind == "window":
            high = min(high, selection.time_to)
        if low <= high:
            segments += [
                (bucket, partition, low, high) for bucket in range(low // store.width, high // store.width + 1)
            ]
    yield from sorted(segments, reverse=selection.reverse)


def _segment(
    connection: Connection,
    store: StoreEntry,
    selection: Selection,
    segment: tuple[int, int, int, int],
    limit: int,
    after: Place | None,
) -> Iterator[ViewRow]:
    bucket, partition, low, high = segment
    clauses = _Clauses(store.id, partition, bucket)
    clauses.keys(selection, after)
    clauses.add("time BETWEEN ? AND ?", low, high)
    if store.kind == "session":
        clauses.add("rank <= ?", selection.time_to)
    if after is not None:
        clauses.add(f"(key, time, rank) {'<' if selection.reverse else '>'} (?, ?, ?)", *after[1:])
    clauses.order("key", "time", "rank", reverse=selection.reverse)
    checksum_of = row_checksum(store.id, partition, 4)
    for key, time, rank, value, timestamp, own, stored in clauses.execute(connection, _WINDOWS, limit):
        verify(_what(store), stored, checksum_of, key, value, own, time, rank, timestamp)
        yield ViewRow(partition, key, value, timestamp, time, rank)


def _versions(
    connection: Connection, store: StoreEntry, selection: Selection, limit: int, after: Place | None
) -> Iterator[ViewRow]:
    for partition, _time, horizon in sorted(read_times(connection, store), reverse=selection.reverse):
        begun = after if after is not None and partition == after[0] else None
        if begun is None and after is not None and (partition > after[0]) == selection.reverse:
            continue
        clauses = _Clauses(store.id, partition)
        clauses.keys(selection, begun)
        if begun is not None:
            clauses.add(f"(key, timestamp) {'<' if selection.reverse else '>'} (?, ?)", begun[1], begun[2])
        clauses.valid(selection, horizon)
        clauses.order("key", "timestamp", reverse=selection.reverse)
        checksum_of = row_checksum(store.id, partition, 3)
        for key, value, timestamp, until, ended, stored in clauses.execute(connection, _VERSIONS, limit):
            numbers = version_numbers(timestamp, value, until, ended)
            verify(_what(store), stored, checksum_of, key, value or b"", *numbers)
            yield ViewRow(partition, key, value, timestamp, timestamp, 0, until)


class _Clauses:
    """The conditions of a statement, and their parameters."""

    def __init__(self, *parameters: Any) -> None:
        self._text: list[str] = []
        self._parameters = [*parameters]

    def add(self, condition: str, *parameters: Any) -> None:
        self._text.append(f" AND {condition}")
        self._parameters += parameters

    def keys(self, selection: Selection, after: Place | None) -> None:
        """The range of keys; after a place, from its key on, which SQLite finds by the primary key."""
        low, below = selection.low, selection.below
        if after is not None and selection.reverse:
            above = after[1] + b"\0"
            below = above if below is None else min(below, above)
        elif after is not None:
            low = max(low, after[1])
        self.add("key >= ?", low)
        if below is not None:
            self.add("key < ?", below)

    def valid(self, selection: Selection, horizon: int) -> None:
        """The versions of a time, or all of a range of time. Former versions are visible from the horizon on."""
        begin = selection.time_from if selection.as_of is None else selection.as_of
        end = selection.time_to if selection.as_of is None else selection.as_of
        self.add("value IS NOT NULL AND timestamp <= ?", end)
        if end < horizon:
            self.add("until IS NULL")
        else:
            self.add("(until IS NULL OR until > ?)", max(begin, horizon))

    def order(self, *columns: str, reverse: bool) -> None:
        direction = " DESC" if reverse else ""
        self._text.append(" ORDER BY " + ", ".join(column + direction for column in columns))

    def execute(self, connection: Connection, statement: str, limit: int) -> Any:
        return connection.execute(f"{statement}{''.join(self._text)} LIMIT ?", [*self._parameters, limit])


def _what(store: StoreEntry) -> str:
    return f"a row of the view of store {store.name!r}"


_RowsOf = Callable[[Connection, StoreEntry, Selection, int, "Place | None"], Iterator[ViewRow]]

_ROWS_OF: dict[str, _RowsOf] = {"key-value": _rows, "window": _windows, "session": _windows, "versioned": _versions}
