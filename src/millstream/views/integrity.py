"""Checks whole views: each row matches its checksum, and no row is lost.

Every row that is read is verified by itself. The absence of a row is certain only if the whole table is intact: a
flipped bit in a page of SQLite can hide rows without an error.
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
"""Larger views are not checked when an application starts, or when a row is not found: that takes seconds."""

_MISSING = 1 << 40
"""Added to the row count of a view while it is rebuilt, so that readers find it damaged."""
_PRIMARY_KEY = {"view_rows": slice(1, 3), "view_windows": slice(1, 6), "view_versions": slice(1, 4)}


def check_store(connection: sqlite3.Connection, store: StoreEntry, most: int | None = None) -> None:
    """Verifies all rows of a view, unless it has more than ``most``.

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
    """Counts the rows of a view; None if one is damaged or out of order."""
    table = _TABLES[store.kind]
    primary_key, start = _PRIMARY_KEY[table], _PRIMARY_KEY[table].stop
    checksums: dict[int, RowChecksum] = {}
    count, before = 0, None
    for row in connection.execute(_ROWS[table], (store.id,)):
        checksum_of = checksums.get(row[0])
        if checksum_of is None:
            checksum_of = checksums[row[0]] = row_checksum(store.id, row[0], _NUMBERS[table])
        values, place = row[start:-1], row[primary_key]
        if table == "view_versions":
            key, value, timestamp, until, ended = values
            values = (key, value or b"", *version_numbers(timestamp, value, until, ended))
        if checksum_of(*values) != row[-1] or (before is not None and place <= before):
            return None
        count, before = count + 1, place
    return count


def read_times(connection: sqlite3.Connection, store: StoreEntry) -> list[tuple[int, int, int]]:
    """Returns partition, time and horizon of each partition of a store that has a time.

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


def row_count(connection: sqlite3.Connection, store: StoreEntry) -> int | None:
    """Returns the number of rows of a view; None if it is damaged, or is rebuilt."""
    rows = _counted(connection, store)[0]
    return int(rows) if isinstance(rows, int) and 0 <= rows < _MISSING else None


class DamagedView(NamedTuple):
    """A damaged view, and its table if SQLite cannot read it."""

    store: StoreEntry
    table: str | None


def find_damaged(
    connection: sqlite3.Connection, application: str, most: int | None = MOST_AT_ONCE
) -> list[DamagedView]:
    """Returns the damaged views of an application. The caller has begun a read transaction.

    Views with more than ``most`` rows are returned only if they were marked as damaged.

    Raises:
        CorruptViewError: The list of stores is damaged.
    """
    views = []
    for store in list_stores(connection, application):
        try:
            check_store(connection, store, most)
        except CorruptViewError:
            views.append(DamagedView(store, None))
        except sqlite3.DatabaseError:
            views.append(DamagedView(store, _TABLES[store.kind]))
            # After such an error, the transaction cannot read.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
    return views


def mark_damaged(path: Path, application: str) -> list[str]:
    """Verifies all views of an application, and marks the damaged ones, which its next start rebuilds.

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
    """Clears damaged views, in the transaction of the caller, and returns the names of their stores.

    Readers find them damaged until `end_rebuild`, so that a partial view is not taken for a complete one. A table that
    SQLite cannot read is set aside; other views lose their rows in it, and are damaged, too.
    """
    for table in {view.table for view in views if view.table is not None}:
        _set_aside(connection, table)
    for view in views:
        clear_store(connection, view.store.id)
        connection.execute("REPLACE INTO view_counts VALUES (?, ?, 0)", (view.store.id, _MISSING))
    return [view.store.name for view in views]


def end_rebuild(connection: sqlite3.Connection, application: str, stores: list[str]) -> None:
    """Marks views as complete."""
    for store in list_stores(connection, application):
        if store.name in stores:
            statement = "UPDATE view_counts SET rows = rows - ?1 WHERE store = ?2 AND rows >= ?1"
            connection.execute(statement, (_MISSING, store.id))


def _set_aside(connection: sqlite3.Connection, table: str) -> None:
    """Replaces a table by an empty one. The damaged pages stay in the file, because SQLite cannot free them."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'damaged_%'").fetchall()
    with contextlib.suppress(sqlite3.DatabaseError):
        connection.execute("DROP INDEX IF EXISTS view_versions_until")
    connection.execute(f"ALTER TABLE {table} RENAME TO damaged_{len(names)}")
    create_tables(connection)
