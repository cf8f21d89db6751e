"""Checks whole views: every row has its checksum, and none is lost.

A row that was found is checked by itself. That a row is not there, or that there are no more of them, is known only if
no part of the table is damaged: a flipped bit in a page of SQLite's can hide rows without an error.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from millstream.errors import CorruptViewError
from millstream.views.checksums import NOT_A_ROW, RowChecksum, checksum, damaged, row_checksum, verify, version_numbers
from millstream.views.tables import StoreEntry, clear_store, create_tables, list_stores

_BUSY_SECONDS = 10
_TABLES = {"key-value": "view_rows", "window": "view_windows", "session": "view_windows", "versioned": "view_versions"}
_NUMBERS = {"view_rows": 1, "view_windows": 4, "view_versions": 3}
# By primary key: partition and the rest of the key, then key, value, numbers and checksum.
_ROWS = {
    "view_rows": "SELECT partition, key, partition, key, value, timestamp, checksum FROM view_rows WHERE store = ?",
    "view_windows": "SELECT partition, partition, bucket, key, time, rank, key, value, bucket, time, rank, timestamp,"
    " checksum FROM view_windows WHERE store = ?",
    "view_versions": "SELECT partition, partition, key, timestamp, key, value, timestamp, until, ended, checksum"
    " FROM view_versions WHERE store = ?",
}
MOST_AT_ONCE = 250_000
"""Views with more rows are not read whole when an application starts, or when a row is missed: that takes seconds."""

_MISSING = 1 << 40
"""How many rows more than there are a view is said to have while it is made anew."""
_PRIMARY_KEY = {"view_rows": slice(1, 3), "view_windows": slice(1, 6), "view_versions": slice(1, 4)}


def check_store(connection: sqlite3.Connection, store: StoreEntry, most: int | None = None) -> None:
    """Reads all rows of a view, unless it has more than ``most``.

    Raises:
        CorruptViewError: A row is damaged or lost.
    """
    read_times(connection, store)
    what = f"the view of store {store.name!r}"
    rows = _counted(connection, store)[0]
    if most is not None and rows is not None and most < rows < _MISSING:
        return
    try:
        count = _count_rows(connection, store)
    except NOT_A_ROW:
        count = None
    if count is None or _counted(connection, store)[0] != count:
        raise damaged(what)


def _count_rows(connection: sqlite3.Connection, store: StoreEntry) -> int | None:
    """Counts the rows of a view; None if one is damaged, or not behind the one before it."""
    table = _TABLES[store.kind]
    primary_key, start = _PRIMARY_KEY[table], _PRIMARY_KEY[table].stop
    checksums: dict[int, RowChecksum] = {}
    count, before = 0, None
    for row in connection.execute(_ROWS[table], (store.id,)):
        given = checksums.get(row[0])
        if given is None:
            given = checksums[row[0]] = row_checksum(store.id, row[0], _NUMBERS[table])
        values, place = row[start:-1], row[primary_key]
        if table == "view_versions":
            key, value, timestamp, until, ended = values
            values = (key, value or b"", *version_numbers(timestamp, value, until, ended))
        if given(*values) != row[-1] or (before is not None and place <= before):
            return None
        count, before = count + 1, place
    return count


def read_times(connection: sqlite3.Connection, store: StoreEntry) -> list[tuple[int, int, int]]:
    """Returns the partitions of a store that has a time, each with its time and its horizon.

    Raises:
        CorruptViewError: A time is damaged or lost.
    """
    statement = "SELECT store, partition, time, horizon, checksum FROM view_times WHERE store = ? ORDER BY partition"
    rows = connection.execute(statement, (store.id,)).fetchall()
    what = f"the time of store {store.name!r}"
    for row in rows:
        verify(what, row[-1], checksum, *row[:-1])
    if _counted(connection, store)[1] != len(rows):
        raise damaged(what)
    return [row[1:4] for row in rows]


def _counted(connection: sqlite3.Connection, store: StoreEntry) -> Any:
    statement = "SELECT rows, times FROM view_counts WHERE store = ?"
    return connection.execute(statement, (store.id,)).fetchone() or (None, None)


class DamagedView(NamedTuple):
    """A view that is damaged, and its table if SQLite cannot read that."""

    store: StoreEntry
    table: str | None


def find_damaged(
    connection: sqlite3.Connection, application: str, most: int | None = MOST_AT_ONCE
) -> list[DamagedView]:
    """Returns the damaged views of an application. The caller has begun a transaction for reading.

    Of views with more than ``most`` rows, only those are found that were marked as damaged.

    Raises:
        CorruptViewError: The list of stores is damaged.
    """
    found = []
    for store in list_stores(connection, application):
        try:
            check_store(connection, store, most)
        except CorruptViewError:
            found.append(DamagedView(store, None))
        except sqlite3.DatabaseError:
            found.append(DamagedView(store, _TABLES[store.kind]))
            # After such an error, a transaction reads nothing any more.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
    return found


def mark_damaged(path: Path, application: str) -> list[str]:
    """Reads all rows of all views of an application, and marks the damaged ones: its next start makes them anew.

    Returns:
        The names of the damaged stores.
    """
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        damaged_views = find_damaged(connection, application, most=None)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        for view in damaged_views:
            connection.execute("REPLACE INTO view_counts VALUES (?, ?, 0)", (view.store.id, _MISSING))
        connection.execute("COMMIT")
    return [view.store.name for view in damaged_views]


def begin_rebuild(connection: sqlite3.Connection, views: list[DamagedView]) -> list[str]:
    """Deletes damaged views, in a transaction of the caller's, and returns the names of their stores.

    They stay damaged for readers until `end_rebuild` is called: a view that was made by half is not taken for whole.
    A table that SQLite cannot read is set aside. What other views had in it is damaged then, too.
    """
    for table in {view.table for view in views if view.table is not None}:
        _set_aside(connection, table)
    for view in views:
        clear_store(connection, view.store.id)
        connection.execute("REPLACE INTO view_counts VALUES (?, ?, 0)", (view.store.id, _MISSING))
    return [view.store.name for view in views]


def end_rebuild(connection: sqlite3.Connection, application: str, stores: list[str]) -> None:
    """Says that views have all their rows again."""
    for store in list_stores(connection, application):
        if store.name in stores:
            statement = "UPDATE view_counts SET rows = rows - ?1 WHERE store = ?2 AND rows >= ?1"
            connection.execute(statement, (_MISSING, store.id))


def _set_aside(connection: sqlite3.Connection, table: str) -> None:
    """Makes a table anew. Its damaged pages stay in the file, unused: SQLite cannot free what it cannot read."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'damaged_%'").fetchall()
    with contextlib.suppress(sqlite3.DatabaseError):
        connection.execute("DROP INDEX IF EXISTS view_versions_until")
    connection.execute(f"ALTER TABLE {table} RENAME TO damaged_{len(names)}")
    create_tables(connection)
