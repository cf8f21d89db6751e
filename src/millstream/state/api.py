"""The protocols of the stores: all that the engine may know of them.

A *row* is what a store holds for a key: ``(value, timestamp)`` in a timestamped store, else the bare value. None
means that there is no row, and putting None deletes one. Listings are ordered by the *bytes* of the keys and are
snapshots: the store may change while one is read. Times are in milliseconds, ranges include both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from millstream.state.spec import ChangelogRecord, StoreSpec

Key: TypeAlias = Any
Row: TypeAlias = Any

LATEST = -1
"""What ``VersionedRowStore.put`` returns if the version is now the latest one."""

NOT_PUT = -(2**63)
"""What ``VersionedRowStore.put`` returns if the version is older than the history that the store keeps."""


class Store(Protocol):
    """What all stores have in common."""

    spec: StoreSpec

    def __len__(self) -> int:
        """About how many rows there are; rows that are no longer visible may count."""

    def changes(self) -> list[ChangelogRecord]:
        """Returns what changed since the last call, one record per key changed, and forgets it.

        The records are in the order of the first change of each key and hold the last state. (A versioned store
        gives every version that was put, in order.) Empty if the store is not logged.
        """

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        """Applies records of the store's changelog, without recording them as changes."""


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


class WindowRowStore(Store, Protocol):
    """Rows by key and window start, forgotten as the time of the store passes.

    ``time`` is the greatest start ever put, -1 at first. A row is visible while ``start > time - retention``; in a
    held store while ``start >= time - retention``. It follows from the changelog as long as that still has a record
    of the greatest start; set it where it was saved elsewhere.
    """

    time: int

    def get(self, key: Key, start: int, /) -> Row | None:
        """Returns the row of a key and a start. With duplicates: the first one."""

    def put(self, key: Key, start: int, row: Row | None, /) -> None:
        """Puts or (None) deletes a row. A row that would not be visible is not put, but see ``rows_between``.

        With duplicates a row is always added, and None is ignored.
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

        In a held store also those that are not visible, put before or after they became so, unless released.
        """

    def release(self, start: int, /) -> None:
        """Allows a held store to drop rows up to this start once they are not visible.

        Not part of the changelog: to be repeated after a restore.
        """


class SessionRowStore(Store, Protocol):
    """Rows by key, session start and session end, forgotten as the time of the store passes.

    ``time`` is the greatest end ever put or removed, -1 at first; a row is visible while ``end > time - retention``.
    It follows from the changelog as in a window store.
    """

    time: int

    def get(self, key: Key, start: int, end: int, /) -> Row | None:
        """Returns the row of a session."""

    def put(self, key: Key, start: int, end: int, row: Row | None, /) -> None:
        """Puts or (None) removes a session. One that would not be visible is not put, but see ``rows_between``."""

    def remove(self, key: Key, start: int, end: int, /) -> None:
        """Removes a session, if there is such a one. Moves the time of the store as a put does."""

    def find(self, key: Key, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Row]]:
        """Returns the visible sessions of a key that end and start within the bounds, as (start, end, row).

        That is ``end >= earliest_end and start <= latest_start``; they are ordered by end, then start.
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
        """Returns the sessions with ``low < end <= high``, by end, start and key bytes; visible or not, if held."""

    def release(self, end: int, /) -> None:
        """Allows a held store to drop sessions up to this end once they are not visible.

        Not part of the changelog: to be repeated after a restore.
        """


class VersionedRowStore(Store, Protocol):
    """Values by key and time: each version is valid from its timestamp to that of the next one.

    ``time`` is the greatest timestamp ever put, -1 at first. Former versions can be looked up as of
    ``time - retention`` or later; the latest one always.
    """

    time: int

    def put(self, key: Key, value: Any | None, timestamp: int, /) -> int:
        """Puts a version; None is a version too, a tombstone.

        Returns:
            The timestamp until which it is valid, ``LATEST`` if it is now the latest, ``NOT_PUT`` if it was not put
            because ``timestamp < time - retention``.
        """

    def delete(self, key: Key, timestamp: int, /) -> tuple[Any, int] | None:
        """Puts a tombstone; returns the version that was valid then, None if there was none or it was not put."""

    def get(self, key: Key, /) -> tuple[Any, int] | None:
        """Returns the latest version, as (value, timestamp)."""

    def get_as_of(self, key: Key, as_of: int, /) -> tuple[Any, int] | None:
        """Returns the version that was valid at a time."""

    def valid_to(self, key: Key, timestamp: int, /) -> int | None:
        """Returns the timestamp of the version that follows one, None if it is the latest."""


class BufferStore(Store, Protocol):
    """Items put aside until their time, in the order of (time, order bytes)."""

    def put(self, time: int, order: bytes, item: Any, /) -> None:
        """Puts an item, in place of one with the same time and order."""

    def get(self, time: int, order: bytes, /) -> Any | None:
        """Returns an item."""

    def remove(self, time: int, order: bytes, /) -> None:
        """Removes an item, if there is such a one."""

    def first(self) -> tuple[int, bytes, Any] | None:
        """Returns the first entry, as (time, order, item)."""

    def pop_first(self) -> tuple[int, bytes, Any] | None:
        """Removes and returns the first entry."""

    def all(self) -> list[tuple[int, bytes, Any]]:
        """Returns all entries in order; costs a sort."""
