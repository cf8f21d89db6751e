"""Stores as processors and tests see them, with Kafka Streams' vocabulary.

A view is a thin layer over a store of ``millstream.state.api``. Ranges include both ends, listings are ordered by the
bytes of the keys and may be read while the store changes, None is "no row", and times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from millstream.state.api import NOT_PUT, KeyValueStore, VersionedStore
from millstream.state.view_base import ValueAndTimestamp, VersionedRecord, View
from millstream.state.window_views import SessionView, TimestampedWindowView, WindowView

__all__ = [
    "KeyValueView",
    "SessionView",
    "TimestampedKeyValueView",
    "TimestampedWindowView",
    "ValueAndTimestamp",
    "VersionedRecord",
    "VersionedView",
    "View",
    "WindowView",
    "view_of",
]

K = TypeVar("K")
V = TypeVar("V")


class KeyValueView(View, Generic[K, V]):
    """A key-value store: values by key.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> store = KeyValueView(open_store(StoreSpec("counts", "key-value", STRING, LONG)))
    >>> store.put("to", 2)
    >>> store.put("be", 2)
    >>> store.put_if_absent("be", 5)
    2
    >>> list(store.all())
    [('be', 2), ('to', 2)]
    >>> store.delete("to"), store.get("to")
    (2, None)
    """

    __slots__ = ()
    _kind = "key-value"
    _store: KeyValueStore

    def get(self, key: K) -> V | None:
        """Returns the value of a key."""
        return cast("V | None", self._row(self._store.get(key)))

    def put(self, key: K, value: V | None) -> None:
        """Puts the value of a key; None deletes it."""
        self._check_key(key)
        self._check_row(value)
        self._store.put(key, value)

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Puts the value of a key that has none; returns the one it had, if any."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Puts (key, value) pairs, in order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Deletes a key; returns the value it had."""
        old = self.get(key)
        self._store.put(key, None)
        return old

    def range(self, key_from: K | None = None, key_to: K | None = None) -> Iterator[tuple[K, V]]:
        """Returns the entries from one key to another; None is no bound."""
        return self._values(self._store.range(key_from, key_to))

    def reverse_range(self, key_from: K | None = None, key_to: K | None = None) -> Iterator[tuple[K, V]]:
        """Returns the entries from one key to another, the last one first."""
        return self._values(self._store.range(key_from, key_to, True))

    def all(self) -> Iterator[tuple[K, V]]:
        """Returns all entries."""
        return self._values(self._store.range())

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Returns all entries, the last one first."""
        return self._values(self._store.range(None, None, True))

    def prefix_scan(self, prefix: K) -> Iterator[tuple[K, V]]:
        """Returns the entries whose key, as bytes, starts with the bytes of ``prefix``, which is of the key's type."""
        return self._values(self._store.prefix(self._store.spec.key.serialize(prefix) or b""))

    def approximate_num_entries(self) -> int:
        """Returns about how many entries there are."""
        return len(self._store)

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return ("key", "value"), self.all()

    def _values(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[K, V]]:
        to_value = self._row
        return ((key, to_value(row)) for key, row in rows)


class TimestampedKeyValueView(KeyValueView[K, ValueAndTimestamp[V]], Generic[K, V]):
    """A key-value store with the timestamps of its values, as tables and aggregates have it.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> table = open_store(StoreSpec("counts", "key-value", STRING, LONG, timestamped=True))
    >>> TimestampedKeyValueView(table).put("be", ValueAndTimestamp(2, 1000))
    >>> TimestampedKeyValueView(table).get("be")
    ValueAndTimestamp(value=2, timestamp=1000)
    >>> KeyValueView(table).get("be")
    2
    """

    __slots__ = ()
    _timestamped = True

    def get_value(self, key: K) -> V | None:
        """Returns the value of a key without its timestamp."""
        row = self._store.get(key)
        return None if row is None else cast("V", row[0])


class VersionedView(View, Generic[K, V]):
    """A versioned store: values by key and time.

    >>> from millstream.serde import STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> prices = VersionedView(open_store(StoreSpec("prices", "versioned", STRING, STRING, retention_ms=1000)))
    >>> prices.put("a", "x", 10), prices.put("a", "y", 20), prices.put("a", "z", 15)
    (-1, -1, 20)
    >>> prices.get("a")
    VersionedRecord(value='y', timestamp=20, valid_to=None)
    >>> prices.get("a", as_of=12)
    VersionedRecord(value='x', timestamp=10, valid_to=15)
    """

    __slots__ = ()
    _kind = "versioned"
    _store: VersionedStore

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Puts a version; None is a version too, a tombstone.

        Returns:
            The time until which the version is valid, -1 (``LATEST``) if it is the latest one, -2**63 (``NOT_PUT``)
            if it was not put because it is older than the history.
        """
        self._check_row(None, timestamp)
        return self._store.put(key, value, timestamp)

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Puts a tombstone; returns the version that was valid at that time."""
        self._check_row(None, timestamp)
        former = self.get(key, as_of=timestamp)
        found = self._store.delete(key, timestamp)
        return None if found is None else former

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """Returns the latest version, or the one that was valid at a time."""
        if as_of is None:
            found = self._store.get(key)
            return None if found is None else VersionedRecord(*found)
        found = self._store.get_as_of(key, as_of)
        return None if found is None else VersionedRecord(*found, self._store.valid_to(key, found[1]))

    @staticmethod
    def was_put(result: int) -> bool:
        """Tells from the result of ``put`` whether the version was put."""
        return result != NOT_PUT


_PLAIN: dict[str, type[View]] = {
    "key-value": KeyValueView,
    "window": WindowView,
    "session": SessionView,
    "versioned": VersionedView,
}
_TIMESTAMPED: dict[str, type[View]] = {
    **_PLAIN,
    "key-value": TimestampedKeyValueView,
    "window": TimestampedWindowView,
}


def view_of(store: Any, *, read_only: bool = False, timestamped: bool = False) -> Any:
    """Returns the view of a store, by its kind.

    Args:
        store: A store that ``open_store`` opened; not a buffer.
        read_only: Whether the view refuses to write, with a ``StateError``.
        timestamped: Whether rows of a timestamped store are shown, and put, with their timestamps.
    """
    spec = store.spec
    views = _TIMESTAMPED if timestamped and spec.timestamped else _PLAIN
    return views[spec.kind](store, read_only=read_only)
