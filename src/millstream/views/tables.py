"""The tables of the views, and how the changes of a batch are written to them.

Nothing here begins or ends a transaction: the log does, around all that a batch publishes.

Rows of key-value stores are ordered by key. Those of window and session stores are ordered by partition and *bucket*, a
stretch of time as wide as a fraction of the retention, and only then by key: what has expired is a range of the table,
which costs little to delete, and no index is needed to find it. A row disappears for readers as soon as the horizon of
its partition has passed it, and from the table when its bucket has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from millstream.errors import StateError
from millstream.names import check_name
from millstream.state.codec import FOREVER, expiry_width, split_session_key, split_window_key
from millstream.state.spec import ChangelogRecord, StoreKind
from millstream.views.changes import ViewChange
from millstream.views.versions import write_versions

NO_HORIZON = -(2**63)
"""The horizon of a store that keeps its rows for ever."""

_KINDS = ("key-value", "window", "session", "versioned")
_DROPPED_AT_ONCE = 10_000
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS view_stores (
        id INTEGER PRIMARY KEY, application TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
        retention INTEGER, width INTEGER NOT NULL, UNIQUE (application, name))""",
    """CREATE TABLE IF NOT EXISTS view_times (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, time INTEGER NOT NULL, horizon INTEGER NOT NULL,
        PRIMARY KEY (store, partition)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS view_rows (
        store INTEGER NOT NULL, key BLOB NOT NULL, partition INTEGER NOT NULL,
        value BLOB NOT NULL, timestamp INTEGER NOT NULL,
        PRIMARY KEY (store, key, partition)) WITHOUT ROWID""",
    # In a window store time is the start and rank the sequence number; in a session store the end and the start.
    """CREATE TABLE IF NOT EXISTS view_windows (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, bucket INTEGER NOT NULL, key BLOB NOT NULL,
        time INTEGER NOT NULL, rank INTEGER NOT NULL, value BLOB NOT NULL, timestamp INTEGER NOT NULL,
        PRIMARY KEY (store, partition, bucket, key, time, rank)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS view_versions (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, key BLOB NOT NULL, timestamp INTEGER NOT NULL,
        value BLOB, until INTEGER, ended INTEGER NOT NULL,
        PRIMARY KEY (store, partition, key, timestamp)) WITHOUT ROWID""",
    """CREATE INDEX IF NOT EXISTS view_versions_until ON view_versions (store, partition, until)
        WHERE until IS NOT NULL""",
)
_DELETE_STORE = tuple(
    f"DELETE FROM {table} WHERE {column} = ?"  # noqa: S608  (names from the line below)
    for table, column in [
        ("view_rows", "store"), ("view_windows", "store"), ("view_versions", "store"), ("view_times", "store"),
        ("view_stores", "id"),
    ]
)  # fmt: skip


class StoreEntry(NamedTuple):
    """A store that has a view.

    Attributes:
        id: Its number in the tables.
        name: The name of the store.
        kind: The kind of the store.
        retention_ms: How long its rows stay visible; None is for ever.
        width: How wide the buckets are that its rows are kept in, if it is a window or a session store.
    """

    id: int
    name: str
    kind: StoreKind
    retention_ms: int | None
    width: int


def create_tables(connection: Connection) -> None:
    """Creates the tables, if they are not there."""
    for statement in _SCHEMA:
        connection.execute(statement)


def list_stores(connection: Connection, application: str) -> list[StoreEntry]:
    """Returns the stores of an application that have a view, by name."""
    found = connection.execute(
        "SELECT id, name, kind, retention, width FROM view_stores WHERE application = ? ORDER BY name", (application,)
    )
    return [StoreEntry(*row) for row in found]


def find_store(connection: Connection, application: str, name: str) -> StoreEntry | None:
    """Returns a store of an application."""
    found = connection.execute(
        "SELECT id, name, kind, retention, width FROM view_stores WHERE application = ? AND name = ?",
        (application, name),
    ).fetchone()
    return None if found is None else StoreEntry(*found)


def drop_application(connection: Connection, application: str) -> None:
    """Deletes the views of all stores of an application."""
    for store in list_stores(connection, application):
        _drop_store(connection, store.id)


def drop_store(connection: Connection, application: str, name: str) -> None:
    """Deletes the view of a store, if there is one."""
    store = find_store(connection, application, name)
    if store is not None:
        _drop_store(connection, store.id)


def _drop_store(connection: Connection, store: int) -> None:
    for statement in _DELETE_STORE:
        connection.execute(statement, (store,))


def apply_changes(connection: Connection, application: str, changes: Sequence[ViewChange]) -> None:
    """Writes what a batch changed, within the transaction of the caller.

    A store is created by its first change. One whose kind is no longer the same starts anew.

    Raises:
        StateError: A change is of a buffer, or lacks the time of its store.
    """
    stores: dict[str, StoreEntry] = {}
    for change in changes:
        store = stores.get(change.store)
        if store is None:
            store = stores[change.store] = _registered(connection, application, change)
        if change.kind == "key-value":
            _write_rows(connection, store.id, change)
        elif change.kind == "versioned":
            horizon = _write_time(connection, store.id, change)
            write_versions(connection, store.id, change.partition, change.records)
            _expire_versions(connection, store.id, change, horizon)
        else:
            horizon = _write_time(connection, store.id, change)
            _write_windows(connection, store, change, horizon)
            _expire_windows(connection, store, change, horizon)


def _registered(connection: Connection, application: str, change: ViewChange) -> StoreEntry:
    if change.kind not in _KINDS:
        raise StateError(f"store {change.store!r} is a {change.kind} store, which has no view")
    store = find_store(connection, application, change.store)
    if store is not None and store.kind != change.kind:
        _drop_store(connection, store.id)
        store = None
    width = expiry_width(FOREVER if change.retention_ms is None else change.retention_ms)
    if store is None:
        check_name(application, "application")
        check_name(change.store, "store")
        id_ = connection.execute(
            "INSERT INTO view_stores (application, name, kind, retention, width) VALUES (?, ?, ?, ?, ?)",
            (application, change.store, change.kind, change.retention_ms, width),
        ).lastrowid
        assert id_ is not None
        return StoreEntry(id_, change.store, change.kind, change.retention_ms, width)
    if store.retention_ms != change.retention_ms:
        store = store._replace(retention_ms=change.retention_ms, width=width)
        connection.execute(
            "UPDATE view_stores SET retention = ?, width = ? WHERE id = ?", (change.retention_ms, width, store.id)
        )
        # SQL divides towards zero, buckets are numbered towards the past.
        connection.execute(
            "UPDATE view_windows SET bucket = (time - (time % ?1 + ?1) % ?1) / ?1 WHERE store = ?2", (width, store.id)
        )
    return store


def _latest(change: ViewChange) -> Iterator[ChangelogRecord]:
    """The last record of each key, by key: neighbours in the table are then written one after the other."""
    records = {record[0]: record for record in change.records}
    return map(records.__getitem__, sorted(records))


def _write_rows(connection: Connection, store: int, change: ViewChange) -> None:
    partition = change.partition
    puts: list[Any] = []
    deletes: list[Any] = []
    for key, value, timestamp in _latest(change):
        if value is None:
            deletes.append((store, key, partition))
        else:
            puts.append((store, key, partition, value, timestamp))
    connection.executemany(
        "REPLACE INTO view_rows (store, key, partition, value, timestamp) VALUES (?, ?, ?, ?, ?)", puts
    )
    connection.executemany("DELETE FROM view_rows WHERE store = ? AND key = ? AND partition = ?", deletes)


def _write_time(connection: Connection, store: int, change: ViewChange) -> int:
    """Writes the time of the store; returns the horizon, at and below which its rows are not visible."""
    if change.time is None:
        raise StateError(f"a change of the {change.kind} store {change.store!r} needs the time of the store")
    horizon = NO_HORIZON
    if change.retention_ms is not None:
        lag = change.retention_ms + (change.held and change.kind == "window")
        horizon = max(change.time - lag, NO_HORIZON)
    connection.execute(
        "REPLACE INTO view_times (store, partition, time, horizon) VALUES (?, ?, ?, ?)",
        (store, change.partition, change.time, horizon),
    )
    return horizon


def _write_windows(connection: Connection, store: StoreEntry, change: ViewChange, horizon: int) -> None:
    id_, partition, width = store.id, change.partition, store.width
    puts: list[Any] = []
    deletes: list[Any] = []
    for data, value, timestamp in _latest(change):
        if change.kind == "window":
            key, time, rank = split_window_key(data)
        else:
            key, rank, time = split_session_key(data)
        if time <= horizon:
            continue  # no reader sees it any more, and its bucket may be gone
        if value is None:
            deletes.append((id_, partition, time // width, key, time, rank))
        else:
            puts.append((id_, partition, time // width, key, time, rank, value, timestamp))
    connection.executemany(
        "REPLACE INTO view_windows (store, partition, bucket, key, time, rank, value, timestamp)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        puts,
    )
    connection.executemany(
        "DELETE FROM view_windows"
        " WHERE store = ? AND partition = ? AND bucket = ? AND key = ? AND time = ? AND rank = ?",
        deletes,
    )


def _expire_windows(connection: Connection, store: StoreEntry, change: ViewChange, horizon: int) -> None:
    """Deletes the buckets below the horizon: all of their rows, or as many as the batch can wait for."""
    if change.retention_ms is None:
        return
    expired = (store.id, change.partition, (horizon + 1) // store.width)
    first_left = connection.execute(
        "SELECT bucket, key, time, rank FROM view_windows WHERE store = ? AND partition = ? AND bucket < ?"
        " ORDER BY bucket, key, time, rank LIMIT 1 OFFSET ?",
        (*expired, _at_once(change)),
    ).fetchone()
    if first_left is None:
        connection.execute("DELETE FROM view_windows WHERE store = ? AND partition = ? AND bucket < ?", expired)
    else:
        connection.execute(
            "DELETE FROM view_windows WHERE store = ? AND partition = ? AND (bucket, key, time, rank) < (?, ?, ?, ?)",
            (*expired[:2], *first_left),
        )


def _expire_versions(connection: Connection, store: int, change: ViewChange, horizon: int) -> None:
    """Deletes what cannot be asked for any more, in the same measure."""
    if change.retention_ms is None:
        return
    next_left = connection.execute(
        "SELECT until FROM view_versions WHERE store = ? AND partition = ? AND until <= ?"
        " ORDER BY until LIMIT 1 OFFSET ?",
        (store, change.partition, horizon, _at_once(change)),
    ).fetchone()
    connection.execute(
        "DELETE FROM view_versions WHERE store = ? AND partition = ? AND until <= ?",
        (store, change.partition, horizon if next_left is None else next_left[0]),
    )


def _at_once(change: ViewChange) -> int:
    # More than a batch can add, so that what has expired never piles up.
    return max(_DROPPED_AT_ONCE, 4 * len(change.records))
