"""Stores that read views: the read methods of the protocols in ``millstream.state.api``, over all partitions.

A listing with rows of one partition has the order of the store in memory. One with rows of several partitions is
ordered by key bytes and then time, as in the test driver.
"""

# ruff: noqa: D102  (the protocols document the methods)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from sqlite3 import Connection, Cursor
from typing import Any, ClassVar, TypeAlias

from millstream.errors import StateError
from millstream.state.codec import FOREVER, segment_interval
from millstream.state.ordered import after_prefix
from millstream.state.spec import StoreSpec
from millstream.views.checksums import NOT_A_ROW, RowChecksum, damaged, row_checksum, verify, version_numbers
from millstream.views.database import ViewDatabase
from millstream.views.integrity import read_times
from millstream.views.tables import StoreEntry

_Entry: TypeAlias = tuple[bytes, int, int, bytes, int]
"""A row of a window or session store: key, time, rank, value, timestamp."""

_VersionKey: TypeAlias = tuple[int, int, bytes]
"""Store, partition and key of versions."""

_VersionRow: TypeAlias = tuple[bytes | None, int, int | None]
"""A version: value, timestamp, until."""

_Order: TypeAlias = Callable[[_Entry], Any]

_ROWS = "SELECT partition, key, value, timestamp, checksum FROM view_rows WHERE store = ?1 AND key >= ?2 "
_WINDOWS = (
    "SELECT key, time, rank, value, timestamp, bucket, checksum FROM view_windows"
    " WHERE store = ? AND partition = ? AND bucket = ? AND time BETWEEN ? AND ? AND "
)
_VERSION = (
    "SELECT value, timestamp, until, ended, checksum FROM view_versions WHERE store = ? AND partition = ? AND key = ? "
)


class _ViewStore:
    """The base class of stores that read views."""

    __slots__ = ("_application", "_database", "_key", "_row", "_to_key", "spec")
    _COUNT: ClassVar[str]

    def __init__(self, database: ViewDatabase, application: str, spec: StoreSpec) -> None:
        self.spec = spec
        self._database = database
        self._application = application
        self._key: Callable[[Any], Any] = spec.key.serialize
        self._to_key: Callable[[bytes], Any] = spec.key.deserialize
        to_value = spec.value.deserialize
        self._row: Callable[[bytes, int], Any] = lambda value, _: to_value(value)
        if spec.timestamped:
            self._row = lambda value, timestamp: (to_value(value), timestamp)
        with database.reading() as connection:
            self._entry(connection)

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(self._COUNT, (self._checked(connection).id,)).fetchone()[0])

    def snapshot(self) -> AbstractContextManager[Connection]:
        return self._database.snapshot()

    def _entry(self, connection: Connection) -> StoreEntry:
        entry = self._database.store(connection, self._application, self.spec.name)
        if entry.kind != self.spec.kind:
            raise StateError(
                f"store {self.spec.name!r} of application {self._application!r} is a {entry.kind} store,"
                f" not a {self.spec.kind} store"
            )
        return entry

    def _checked(self, connection: Connection) -> StoreEntry:
        """Returns the entry of the store, after a check of its view: a row that is not found does not exist."""
        entry = self._entry(connection)
        self._database.check(connection, entry)
        return entry

    def _verify(self, stored: Any, checksum_of: RowChecksum, *values: Any) -> None:
        verify(f"a row of the view of store {self.spec.name!r}", stored, checksum_of, *values)


class ViewKeyValueStore(_ViewStore):
    """A key-value store that reads its view. Long listings are read as they are consumed."""

    __slots__ = ()
    _COUNT = "SELECT count(*) FROM view_rows WHERE store = ?"

    def get(self, key: Any, /) -> Any:
        data = self._key(key)
        with self._database.reading() as connection:
            entry = self._entry(connection)
            row = connection.execute(
                "SELECT partition, value, timestamp, checksum FROM view_rows WHERE store = ? AND key = ?"
                " ORDER BY partition LIMIT 1",
                (entry.id, data),
            ).fetchone()
            if row is None:
                self._database.check(connection, entry)
                return None
        partition, value, timestamp, stored = row
        self._verify(stored, row_checksum(entry.id, partition, 1), data, value, timestamp)
        return self._row(value, timestamp)

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        least = b"" if low is None else self._key(low)
        order = "ORDER BY key DESC, partition" if reverse else "ORDER BY key, partition"
        if high is None:
            return self._list(order, least)
        return self._list("AND key <= ?3 " + order, least, self._key(high))

    def prefix(self, prefix: bytes, /) -> Iterator[tuple[Any, Any]]:
        end = after_prefix(prefix)
        if end is None:
            return self._list("ORDER BY key, partition", prefix)
        return self._list("AND key < ?3 ORDER BY key, partition", prefix, end)

    def _list(self, clauses: str, *bounds: bytes) -> Iterator[tuple[Any, Any]]:
        store = 0

        def query(connection: Connection) -> Cursor:
            nonlocal store
            store = self._checked(connection).id
            return connection.execute(_ROWS + clauses, (store, *bounds))

        return self._read_rows(self._database.rows(query), store)

    def _read_rows(self, rows: Iterator[Any], store: int) -> Iterator[tuple[Any, Any]]:
        to_key, to_row = self._to_key, self._row
        checksums = _Checksums(store, 1)
        for partition, key, value, timestamp, stored in rows:
            try:
                matches = checksums[partition](key, value, timestamp) == stored
            except NOT_A_ROW:
                matches = False
            if not matches:
                raise damaged(f"a row of the view of store {self.spec.name!r}")
            yield to_key(key), to_row(value, timestamp)


class _TimedViewStore(_ViewStore):
    """The base class of window and session stores: rows by time within a partition."""

    __slots__ = ("_segment",)
    _COUNT = "SELECT count(*) FROM view_windows WHERE store = ?"

    def __init__(self, database: ViewDatabase, application: str, spec: StoreSpec) -> None:
        super().__init__(database, application, spec)
        self._segment = segment_interval(FOREVER if spec.retention_ms is None else spec.retention_ms)

    def _of_key(self, key: Any, from_: int, to: int) -> list[list[_Entry]]:
        """Returns the visible rows of a key in a time range, by partition, in the order of the table."""
        return self._read("key = ? ORDER BY time, rank", (self._key(key),), from_, to)

    def _of_keys(self, low: Any, high: Any, from_: int, to: int) -> list[list[_Entry]]:
        least = b"" if low is None else self._key(low)
        if high is None:
            return self._read("key >= ?", (least,), from_, to)
        return self._read("key BETWEEN ? AND ?", (least, self._key(high)), from_, to)

    def _read(self, keys: str, bounds: tuple[Any, ...], from_: int, to: int) -> list[list[_Entry]]:
        parts: list[list[_Entry]] = []
        with self._database.reading() as connection:
            store = self._checked(connection)
            for partition, time, horizon in read_times(connection, store):
                low, high = max(from_, horizon + 1), min(to, time)
                part: list[_Entry] = []
                if low <= high:
                    for bucket in range(low // store.width, high // store.width + 1):
                        place = (store.id, partition, bucket, low, high, *bounds)
                        part += self._verified(connection.execute(_WINDOWS + keys, place), store.id, partition)
                if part:
                    parts.append(part)
        return parts

    def _verified(self, rows: Iterable[Any], store: int, partition: int) -> Iterator[_Entry]:
        checksum_of = row_checksum(store, partition, 4)
        for key, time, rank, value, timestamp, bucket, stored in rows:
            self._verify(stored, checksum_of, key, value, bucket, time, rank, timestamp)
            yield key, time, rank, value, timestamp


def _together(parts: list[list[_Entry]], order: _Order, order_of_all: _Order, reverse: bool) -> Iterable[_Entry]:
    """Returns the rows of all partitions: in ``order`` if they are of one partition, else in ``order_of_all``."""
    for part in parts:
        part.sort(key=order, reverse=reverse)
    if len(parts) == 1:
        return parts[0]
    return sorted([entry for part in parts for entry in part], key=order_of_all, reverse=reverse)


def _by_key_time(entry: _Entry) -> Any:
    return entry[0], entry[1]


def _by_key_rank_time(entry: _Entry) -> Any:
    return entry[0], entry[2], entry[1]


def _by_time_rank(entry: _Entry) -> Any:
    return entry[1], entry[2]


def _by_time_rank_key(entry: _Entry) -> Any:
    return entry[1], entry[2], entry[0]


class ViewWindowStore(_TimedViewStore):
    """A window store that reads its view."""

    __slots__ = ()

    def get(self, key: Any, start: int, /) -> Any:
        for (_, _, _, value, timestamp), *_ in self._of_key(key, start, start):
            return self._row(value, timestamp)
        return None

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        to_row = self._row
        entries = _together(self._of_key(key, from_, to), _by_time_rank, _by_time_rank, reverse)
        return [(start, to_row(value, timestamp)) for _, start, _, value, timestamp in entries]

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, from_, to, reverse)

    def all(self, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, -FOREVER, FOREVER, reverse)

    def fetch_keys(self, low: Any, high: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        to_key, to_row, segment = self._to_key, self._row, self._segment
        entries = _together(
            self._of_keys(low, high, from_, to),
            lambda entry: (entry[1] // segment, *entry[:3]),
            _by_key_time,
            reverse,
        )
        return [(to_key(key), start, to_row(value, timestamp)) for key, start, _, value, timestamp in entries]


class ViewSessionStore(_TimedViewStore):
    """A session store that reads its view."""

    __slots__ = ()

    def get(self, key: Any, start: int, end: int, /) -> Any:
        for part in self._of_key(key, end, end):
            for _, _, rank, value, timestamp in part:
                if rank == start:
                    return self._row(value, timestamp)
        return None

    def find(self, key: Any, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Any]]:
        to_row = self._row
        parts = _started(self._of_key(key, earliest_end, FOREVER), latest_start)
        entries = _together(parts, _by_time_rank, _by_key_rank_time, reverse)
        return [(start, end, to_row(value, timestamp)) for _, end, start, value, timestamp in entries]

    def fetch(self, key: Any, reverse: bool = False) -> list[tuple[int, int, Any]]:
        return self.find(key, 0, FOREVER, reverse)

    def fetch_keys(
        self,
        low: Any = None,
        high: Any = None,
        earliest_end: int = 0,
        latest_start: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[Any, int, int, Any]]:
        segment = self._segment
        latest = FOREVER if latest_start is None else latest_start
        parts = _started(self._of_keys(low, high, earliest_end, FOREVER), latest)
        return self._entries(
            _together(parts, lambda entry: (entry[1] // segment, *entry[:3]), _by_key_rank_time, reverse)
        )

    def find_ending(self, earliest_end: int, latest_end: int, /) -> list[tuple[Any, int, int, Any]]:
        parts = self._of_keys(None, None, earliest_end, latest_end)
        return self._entries(_together(parts, _by_time_rank_key, _by_key_rank_time, reverse=False))

    def _entries(self, entries: Iterable[_Entry]) -> list[tuple[Any, int, int, Any]]:
        to_key, to_row = self._to_key, self._row
        return [(to_key(key), start, end, to_row(value, timestamp)) for key, end, start, value, timestamp in entries]


def _started(parts: list[list[_Entry]], latest: int) -> list[list[_Entry]]:
    """Returns the sessions that start at a time or before it."""
    started = [[entry for entry in part if entry[2] <= latest] for part in parts]
    return [part for part in started if part]


class ViewVersionedStore(_ViewStore):
    """A versioned store that reads its view."""

    __slots__ = ()
    _COUNT = "SELECT count(*) FROM view_versions WHERE store = ?"

    def get(self, key: Any, /) -> tuple[Any, int] | None:
        return self.get_as_of(key, FOREVER)

    def get_as_of(self, key: Any, as_of: int, /) -> tuple[Any, int] | None:
        data = self._key(key)
        with self._database.reading() as connection:
            store = self._checked(connection)
            for partition, _, horizon in read_times(connection, store):
                version = self._version(connection, (store.id, partition, data), as_of, horizon)
                if version is not None and version[0] is not None:
                    return self._row(version[0], version[1]), version[1]
        return None

    def valid_to(self, key: Any, timestamp: int, /) -> int | None:
        data = self._key(key)
        with self._database.reading() as connection:
            store = self._checked(connection)
            for partition, _, _ in read_times(connection, store):
                version = self._select(connection, (store.id, partition, data), "AND timestamp = ?", timestamp)
                if version is not None and version[0] is not None:
                    return version[2]
        return None

    def _version(self, connection: Connection, key: _VersionKey, as_of: int, horizon: int) -> _VersionRow | None:
        """Returns the version of a key in a partition that was valid at a time; the value of a tombstone is None."""
        latest = self._select(connection, key, "ORDER BY timestamp DESC LIMIT 1")
        if latest is None or latest[1] <= as_of:
            return latest
        if as_of < horizon:
            return None
        return self._select(connection, key, "AND timestamp <= ? ORDER BY timestamp DESC LIMIT 1", as_of)

    def _select(self, connection: Connection, key: _VersionKey, clauses: str, *bounds: int) -> _VersionRow | None:
        row = connection.execute(_VERSION + clauses, (*key, *bounds)).fetchone()
        if row is None:
            return None
        store, partition, data = key
        value, timestamp, until, ended, stored = row
        numbers = version_numbers(timestamp, value, until, ended)
        self._verify(stored, row_checksum(store, partition, 3), data, value or b"", *numbers)
        return value, timestamp, until


class _Checksums(dict[int, RowChecksum]):
    """The checksum functions of a store, by partition."""

    def __init__(self, store: int, numbers: int) -> None:
        super().__init__()
        self._place = store, numbers

    def __missing__(self, partition: int) -> RowChecksum:
        store, numbers = self._place
        self[partition] = function = row_checksum(store, partition, numbers)
        return function
