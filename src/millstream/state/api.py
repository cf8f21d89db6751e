"""The protocols of state stores, which operators use.

A *row* is the content of a store for a key: ``(value, timestamp)`` in a timestamped store, else the value. None means
that there is no row, and putting None deletes it. Listings are ordered by the *bytes* of the keys and are snapshots:
the store may change while one is read. Times are in milliseconds. Ranges include both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from millstream.state.spec import ChangelogRecord, Changes, StoreSpec

Key: TypeAlias = Any
Row: TypeAlias = Any

LATEST = -1
"""The result of ``VersionedRowStore.put`` if the version is now the latest one."""

NOT_PUT = -(2**63)
"""The result of ``VersionedRowStore.put`` if the version is older than the history that the store keeps."""


class Store(Protocol):
    """The methods that all stores have."""

    spec: StoreSpec

    @property
    def time(self) -> int | None:
        """The time of a window, session or versioned store; None in a key-value store or a buffer."""

    def __len__(self) -> int:
        """The approximate number of rows; expired rows may count."""

    def changes(self) -> list[ChangelogRecord]:
        """Returns the changes since the last call, one record per changed key, and forgets them.

        The records are in the order of the first change of each key and contain the last row. (A versioned store
        returns each version that was put, in order.) Empty if the store is not logged.
        """

    def changed_columns(self) -> Changes:
        """Returns what ``changes`` does, by column."""

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        """Applies records of the store's changelog, in order, without recording them as changes.

        Call it before the first put. The store may have rows: a checkpoint is restored by opening the store with the
        rows of the checkpoint, and then applying the rest of the changelog. The time of the store, and the sequence
        numbers of a store with duplicates, advance with the records. A paged store writes the restored rows with the
        next commit.

        Raises:
            StateError: A paged store has changes that were not committed.
        """


class TimedRowStore(Store, Protocol):
    """A store whose rows expire as its time advances.

    ``time`` is the greatest time ever put, -1 at first. It follows from the changelog as long as that contains a record
    of the greatest time; else set it, where it was saved elsewhere.
    """

    time: int


class KeyValueRowStore(Store, Protocol):
    """Rows by key."""

    def get(self, key: Key, /) -> Row | None:
        """Returns the row of a key."""

    def put(self, key: Key, row: Row | None, /) -> None:
        """Puts the row of a key; None deletes it."""

    def range(self, low: Key = None, high: Key = None, reverse: bool = False) -> Iterator[tuple[Key, Row]]:
        """Returns the rows from ``low`` to ``high`` (None: no bound)."""

    def prefix(self, prefix: bytes, /) -> Iterator[tuple[Key, Row]]:
        """Returns the rows whose key bytes start with ``prefix``."""


class WindowRowStore(TimedRowStore, Protocol):
    """Rows by key and window start.

    ``time`` is the greatest start ever put. A row is visible while ``start > time - retention``; in a held store while
    ``start >= time - retention``.
    """

    def get(self, key: Key, start: int, /) -> Row | None:
        """Returns the row of a key and a start; with duplicates, the first one."""

    def put(self, key: Key, start: int, row: Row | None, /) -> None:
        """Puts or (None) deletes a row. An expired row is not put; a held store puts it until it is released.

        With duplicates the row is always added, and None is ignored.
        """

    def fetch(self, key: Key, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Row]]:
        """Returns the visible rows of a key, as (start, row), by start."""

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Key, int, Row]]:
        """Returns the visible rows of all keys, as (key, start, row), by segment, key bytes and start."""

    def fetch_keys(
        self, low: Key | None, high: Key | None, from_: int, to: int, reverse: bool = False
    ) -> list[tuple[Key, int, Row]]:
        """Returns the visible rows of the keys from ``low`` to ``high`` (None: no bound), ordered as ``fetch_all``."""

    def all(self, reverse: bool = False) -> list[tuple[Key, int, Row]]:
        """Returns all visible rows, ordered as ``fetch_all``."""

    def rows_between(self, low: int, high: int, /) -> list[tuple[Key, int, Row]]:
        """Returns the rows with ``low < start <= high``, by start and key bytes.

        A held store also returns rows that are not visible and were not released.
        """

    def release(self, start: int, /) -> None:
        """Allows a held store to drop rows up to this start once they are not visible.

        Releases are not in the changelog: repeat the last one after a restore.
        """


class SessionRowStore(TimedRowStore, Protocol):
    """Rows by key, session start and session end.

    ``time`` is the greatest end ever put or removed. A row is visible while ``end > time - retention``.
    """

    def get(self, key: Key, start: int, end: int, /) -> Row | None:
        """Returns the row of a session."""

    def put(self, key: Key, start: int, end: int, row: Row | None, /) -> None:
        """Puts or (None) removes a session. An expired one is not put; a held store puts it until it is released."""

    def remove(self, key: Key, start: int, end: int, /) -> None:
        """Removes a session, if it exists. Advances the time of the store as a put does."""

    def find(self, key: Key, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Row]]:
        """Returns the visible sessions of a key with ``end >= earliest_end and start <= latest_start``.

        As (start, end, row), ordered by end, then start.
        """

    def fetch(self, key: Key, reverse: bool = False) -> list[tuple[int, int, Row]]:
        """Returns all visible sessions of a key, ordered as ``find``."""

    def fetch_keys(
        self,
        low: Key | None = None,
        high: Key | None = None,
        earliest_end: int = 0,
        latest_start: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[Key, int, int, Row]]:
        """Returns visible sessions of the keys from ``low`` to ``high``, as (key, start, end, row).

        They are ordered by segment, key bytes, end and start.
        """

    def find_ending(self, earliest_end: int, latest_end: int, /) -> list[tuple[Key, int, int, Row]]:
        """Returns the visible sessions of all keys that end in a range, by end, start and key bytes."""

    def rows_between(self, low: int, high: int, /) -> list[tuple[Key, int, int, Row]]:
        """Returns the sessions with ``low < end <= high``, by end, start and key bytes.

        A held store also returns sessions that are not visible and were not released.
        """

    def release(self, end: int, /) -> None:
        """Allows a held store to drop sessions up to this end once they are not visible.

        Releases are not in the changelog: repeat the last one after a restore.
        """


class VersionedRowStore(TimedRowStore, Protocol):
    """Values by key and time: each version is valid from its timestamp to that of the next one.

    ``time`` is the greatest timestamp ever put. Former versions can be looked up as of ``time - retention`` or later;
    the latest version always.
    """

    def put(self, key: Key, value: Any | None, timestamp: int, /) -> int:
        """Puts a version; None is a version too, a tombstone.

        Returns:
            The timestamp until which it is valid, ``LATEST`` if it is now the latest, ``NOT_PUT`` if it was not put
            because ``timestamp < time - retention``.
        """

    def delete(self, key: Key, timestamp: int, /) -> tuple[Any, int] | None:
        """Puts a tombstone; returns the version that was valid at that time; None if there was none, or too old."""

    def get(self, key: Key, /) -> tuple[Any, int] | None:
        """Returns the latest version, as (value, timestamp)."""

    def get_as_of(self, key: Key, as_of: int, /) -> tuple[Any, int] | None:
        """Returns the version that was valid at a time."""

    def valid_to(self, key: Key, timestamp: int, /) -> int | None:
        """Returns the timestamp of the first version after a timestamp, None if there is none."""


class BufferStore(Store, Protocol):
    """Items that wait for their time, in the order of (time, order bytes)."""

    def put(self, time: int, order: bytes, item: Any, /) -> None:
        """Puts an item; replaces one with the same time and order."""

    def get(self, time: int, order: bytes, /) -> Any | None:
        """Returns an item."""

    def remove(self, time: int, order: bytes, /) -> None:
        """Removes an item, if it exists."""

    def first(self) -> tuple[int, bytes, Any] | None:
        """Returns the first entry, as (time, order, item)."""

    def pop_first(self) -> tuple[int, bytes, Any] | None:
        """Removes and returns the first entry."""

    def all(self) -> list[tuple[int, bytes, Any]]:
        """Returns all entries in order, sorted for the call."""
