"""The tables of the views, and the writing of batches to them.

The log begins and ends the transactions, which publish all results of a batch.

Rows of key-value stores are ordered by key. Rows of window and session stores are ordered by partition, then *bucket*
(a time range, a fraction of the retention), then key: expired rows are a range of the table, which is found without an
index and costs little to delete. Readers do not see a row once the horizon of its partition has passed it; it is
deleted when the horizon has passed its bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from millstream.core.durations import END_OF_TIME
from millstream.core.names import check_name
from millstream.errors import StateError
from millstream.serde.key_layouts import split_session_key, split_store_window_key
from millstream.state.codec import FOREVER, expiry_width
from millstream.state.spec import StoreKind
from millstream.views.changes import RowChange, ViewChange
from millstream.views.checksums import checksum, damaged, row_checksum, verify
from millstream.views.commits import TABLE as COMMITS, note_commit
from millstream.views.counts import count, put_rows, statements, write_rows
from millstream.views.versions import write_versions

NO_HORIZON = -(2**63)
"""The horizon of a store that keeps its rows for ever."""

_RESTORE = "restore log.db from a copy; a views.db can be deleted: applications rebuild their views when they start"
_KINDS = ("key-value", "window", "session", "versioned")
_DROPPED_AT_ONCE = 10_000
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS view_stores (
        application TEXT NOT NULL, name TEXT NOT NULL, id INTEGER NOT NULL, kind TEXT NOT NULL,
        retention INTEGER, width INTEGER NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (application, name)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS view_times (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, time INTEGER NOT NULL, horizon INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (store, partition)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS view_rows (
        store INTEGER NOT NULL, key BLOB NOT NULL, partition INTEGER NOT NULL,
        value BLOB NOT NULL, timestamp INTEGER NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (store, key, partition)) WITHOUT ROWID""",
    # In a window store time is the start and rank the sequence number; in a session store the end and the start.
    """CREATE TABLE IF NOT EXISTS view_windows (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, bucket INTEGER NOT NULL, key BLOB NOT NULL,
        time INTEGER NOT NULL, rank INTEGER NOT NULL, value BLOB NOT NULL, timestamp INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (store, partition, bucket, key, time, rank)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS view_versions (
        store INTEGER NOT NULL, partition INTEGER NOT NULL, key BLOB NOT NULL, timestamp INTEGER NOT NULL,
        value BLOB, until INTEGER, ended INTEGER NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (store, partition, key, timestamp)) WITHOUT ROWID""",
    """CREATE INDEX IF NOT EXISTS view_versions_until ON view_versions (store, partition, until)
        WHERE until IS NOT NULL""",
    # The numbers of rows and times of a store, to detect lost ones; for store 0, the number of stores. They need no
    # checksum: a damaged number does not match the rows.
    """CREATE TABLE IF NOT EXISTS view_counts (
        store INTEGER PRIMARY KEY, rows INTEGER NOT NULL, times INTEGER NOT NULL)""",
    "INSERT OR IGNORE INTO view_counts VALUES (0, 0, 0)",
    COMMITS,
)
_DELETE_ROWS = tuple(
    f"DELETE FROM {table} WHERE store = ?"  # noqa: S608  (names from the line below)
    for table in ("view_rows", "view_windows", "view_versions", "view_times")
)
_DELETE_STORE = (
    *_DELETE_ROWS, "DELETE FROM view_stores WHERE id = ?", "DELETE FROM view_counts WHERE store = ?",
)  # fmt: skip
_ROWS = statements("view_rows", ("store", "key", "partition"), ("value", "timestamp", "checksum"))
_WINDOWS = statements(
    "view_windows", ("store", "partition", "bucket", "key", "time", "rank"), ("value", "timestamp", "checksum")
)
_TIMES = statements("view_times", ("store", "partition"), ("time", "horizon", "checksum"))
_STORES = "SELECT application, name, id, kind, retention, width, checksum FROM view_stores "


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
    """Creates the tables, if they do not exist."""
    for statement in _SCHEMA:
        connection.execute(statement)


def list_stores(connection: Connection, application: str) -> list[StoreEntry]:
    """Returns the stores of an application that have a view, by name.

    Raises:
        CorruptViewError: The list of stores is damaged.
    """
    return [_entry(row) for row in _all_stores(connection) if row[0] == application]


def find_store(connection: Connection, application: str, name: str) -> StoreEntry | None:
    """Returns a store of an application.

    Raises:
        CorruptViewError: Its entry, or the list of stores in which it is not found, is damaged.
    """
    row = connection.execute(_STORES + "WHERE application = ? AND name = ?", (application, name)).fetchone()
    if row is None:
        row = next((row for row in _all_stores(connection) if row[:2] == (application, name)), None)
        if row is not None:
            raise damaged(f"the entry of store {name!r} of application {application!r}", _RESTORE)
        return None
    return _entry(row)


def _all_stores(connection: Connection) -> list[Any]:
    """Returns all rows of the table of stores, after a check that none is damaged or lost."""
    rows = connection.execute(_STORES + "ORDER BY application, name").fetchall()
    for row in rows:
        _entry(row)
    counted = connection.execute("SELECT rows FROM view_counts WHERE store = 0").fetchone()
    if counted != (len(rows),):
        raise damaged("the list of the stores that have views", _RESTORE)
    return rows


def _entry(row: Any) -> StoreEntry:
    verify(f"the entry of store {row[1]!r} of application {row[0]!r}", row[-1], checksum, *row[:-1], hint=_RESTORE)
    _application, name, id_, kind, retention, width, _checksum = row
    return StoreEntry(id_, name, kind, retention, width)


def store_times(connection: Connection, application: str) -> dict[tuple[str, int], int]:
    """Returns the times of stores, by name and partition."""
    times = {}
    for store in list_stores(connection, application):
        statement = "SELECT store, partition, time, horizon, checksum FROM view_times WHERE store = ?"
        for row in connection.execute(statement, (store.id,)):
            verify(f"the time of store {store.name!r}", row[-1], checksum, *row[:-1])
            times[store.name, row[1]] = row[2]
    return times


def drop_application(connection: Connection, application: str) -> None:
    """Deletes the views of all stores of an application."""
    stores = list_stores(connection, application)
    for store in stores:
        _drop_store(connection, store.id)
    note_commit(connection, application, changes=bool(stores))


def drop_store(connection: Connection, application: str, name: str) -> None:
    """Deletes the view of a store, if it exists."""
    store = find_store(connection, application, name)
    if store is not None:
        _drop_store(connection, store.id)
        note_commit(connection, application, changes=True)


def clear_store(connection: Connection, store: int) -> None:
    """Deletes the rows of a view, and the times of its partitions."""
    for statement in _DELETE_ROWS:
        connection.execute(statement, (store,))


def _drop_store(connection: Connection, store: int) -> None:
    for statement in _DELETE_STORE:
        connection.execute(statement, (store,))
    count(connection, 0, -1)


def apply_changes(connection: Connection, application: str, changes: Sequence[ViewChange]) -> None:
    """Writes the changes of a batch, in the transaction of the caller.

    The first change of a store creates its view. A store of another kind replaces the view.

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
    note_commit(connection, application, changes=bool(changes))


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
        id_ = 1 + max((row[2] for row in _all_stores(connection)), default=0)
        # A dropped store leaves no count, but one whose entry was lost may have.
        connection.execute("REPLACE INTO view_counts VALUES (?, 0, 0)", (id_,))
        store = StoreEntry(id_, change.store, change.kind, change.retention_ms, width)
        _register(connection, application, store)
        count(connection, 0, 1)
    elif store.retention_ms != change.retention_ms:
        store = store._replace(retention_ms=change.retention_ms, width=width)
        _register(connection, application, store)
        _move_to_buckets(connection, store)
    return store


def _register(connection: Connection, application: str, store: StoreEntry) -> None:
    row = (application, store.name, store.id, store.kind, store.retention_ms, store.width)
    connection.execute("REPLACE INTO view_stores VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def _move_to_buckets(connection: Connection, store: StoreEntry) -> None:
    """Moves the rows of a window or session store to buckets of another width."""
    statement = (
        "SELECT partition, bucket, key, time, rank, value, timestamp, checksum FROM view_windows WHERE store = ?"
    )
    rows = connection.execute(statement, (store.id,)).fetchall()
    connection.execute("DELETE FROM view_windows WHERE store = ?", (store.id,))
    checksums = {partition: row_checksum(store.id, partition, 4) for partition in {row[0] for row in rows}}
    moved = []
    for partition, before, key, time, rank, value, timestamp, stored in rows:
        checksum_of = checksums[partition]
        verify(f"a row of store {store.name!r}", stored, checksum_of, key, value, before, time, rank, timestamp)
        bucket = time // store.width
        numbers = (bucket, key, time, rank, value, timestamp)
        moved.append((store.id, partition, *numbers, checksum_of(key, value, bucket, time, rank, timestamp)))
    write_rows(connection, _WINDOWS.replace, _WINDOWS.columns, moved)


def _latest(change: ViewChange) -> Iterator[RowChange]:
    """Returns the last record of each key, by key: neighbours in the table are then written one after the other."""
    records = {record[0]: record for record in change.records}
    return map(records.__getitem__, sorted(records))


def _write_rows(connection: Connection, store: int, change: ViewChange) -> None:
    partition = change.partition
    checksum_of = row_checksum(store, partition, 1)
    latest = list(_latest(change))
    puts = [
        (store, key, partition, value, timestamp, checksum_of(key, value, timestamp))
        for key, value, timestamp in latest
        if value is not None
    ]
    deletes = [(store, key, partition) for key, value, _timestamp in latest if value is None]
    put_rows(connection, _ROWS, store, puts, deletes)


def _write_time(connection: Connection, store: int, change: ViewChange) -> int:
    """Writes the time of the store; returns its horizon: rows up to it are not visible."""
    if change.time is None:
        raise StateError(f"a change of the {change.kind} store {change.store!r} needs the time of the store")
    horizon = NO_HORIZON
    if change.retention_ms is not None:
        lag = change.retention_ms + (change.held and change.kind == "window")
        horizon = max(change.time - lag, NO_HORIZON)
    row = (store, change.partition, change.time, horizon)
    put_rows(connection, _TIMES, store, [(*row, checksum(*row))], [], column="times")
    return horizon


def _write_windows(connection: Connection, store: StoreEntry, change: ViewChange, horizon: int) -> None:
    id_, partition, width = store.id, change.partition, store.width
    checksum_of = row_checksum(id_, partition, 4)
    puts: list[Any] = []
    deletes: list[Any] = []
    for data, value, timestamp in _latest(change):
        if change.kind == "window":
            key, time, rank = split_store_window_key(data)
        else:
            key, rank, time = split_session_key(data)
        if time <= horizon:
            continue  # readers do not see it, and its bucket may be deleted
        if value is None:
            deletes.append((id_, partition, time // width, key, time, rank))
        else:
            bucket = time // width
            stored = checksum_of(key, value, bucket, time, rank, timestamp)
            puts.append((id_, partition, bucket, key, time, rank, value, timestamp, stored))
    put_rows(connection, _WINDOWS, id_, puts, deletes)


def _expire_windows(connection: Connection, store: StoreEntry, change: ViewChange, horizon: int) -> None:
    """Deletes rows of the buckets below the horizon: all, or a limited number, to bound the time of the batch."""
    if change.retention_ms is None:
        return
    expired = (store.id, change.partition, min((horizon + 1) // store.width, END_OF_TIME))
    first_left = connection.execute(
        "SELECT bucket, key, time, rank FROM view_windows WHERE store = ? AND partition = ? AND bucket < ?"
        " ORDER BY bucket, key, time, rank LIMIT 1 OFFSET ?",
        (*expired, _at_once(change)),
    ).fetchone()
    if first_left is None:
        statement = "DELETE FROM view_windows WHERE store = ? AND partition = ? AND bucket < ?"
        deleted = connection.execute(statement, expired).rowcount
    else:
        deleted = connection.execute(
            "DELETE FROM view_windows WHERE store = ? AND partition = ? AND (bucket, key, time, rank) < (?, ?, ?, ?)",
            (*expired[:2], *first_left),
        ).rowcount
    count(connection, store.id, -deleted)


def _expire_versions(connection: Connection, store: int, change: ViewChange, horizon: int) -> None:
    """Deletes versions that cannot be looked up, with the same limit."""
    if change.retention_ms is None:
        return
    next_left = connection.execute(
        "SELECT until FROM view_versions WHERE store = ? AND partition = ? AND until <= ?"
        " ORDER BY until LIMIT 1 OFFSET ?",
        (store, change.partition, horizon, _at_once(change)),
    ).fetchone()
    deleted = connection.execute(
        "DELETE FROM view_versions WHERE store = ? AND partition = ? AND until <= ?",
        (store, change.partition, horizon if next_left is None else next_left[0]),
    ).rowcount
    count(connection, store, -deleted)


def _at_once(change: ViewChange) -> int:
    # More than a batch adds, so that expired rows do not accumulate.
    return max(_DROPPED_AT_ONCE, 4 * len(change.records))
