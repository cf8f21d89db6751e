"""Key-value stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from millstream.state.api import KeyValueRowStore
from millstream.state.stores.base import StateStore, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyKeyValueStore(StateStore, Generic[K, V]):
    """A key-value store that can be read: values by key."""

    __slots__ = ()
    _kind = "key-value"
    _rows: KeyValueRowStore

    def get(self, key: K) -> V | None:
        """Returns the value of a key."""
        return cast("V | None", self._to_value(self._rows.get(key)))

    def range(self, key_from: K | None = None, key_to: K | None = None) -> Iterator[tuple[K, V]]:
        """Returns the entries from one key to another; None is no bound."""
        return self._entries(self._rows.range(key_from, key_to))

    def reverse_range(self, key_from: K | None = None, key_to: K | None = None) -> Iterator[tuple[K, V]]:
        """Returns the entries from one key to another, in descending order."""
        return self._entries(self._rows.range(key_from, key_to, True))

    def all(self) -> Iterator[tuple[K, V]]:
        """Returns all entries."""
        return self._entries(self._rows.range())

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Returns all entries, in descending order."""
        return self._entries(self._rows.range(None, None, True))

    def prefix_scan(self, prefix: K) -> Iterator[tuple[K, V]]:
        """Returns the entries whose key bytes start with the bytes of ``prefix``, which is of the key's type."""
        return self._entries(self._rows.prefix(self._rows.spec.key.serialize(prefix) or b""))

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of entries."""
        return len(self._rows)

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return ("key", "value"), self.all()

    def _entries(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[K, V]]:
        to_value = self._to_value
        return ((key, to_value(row)) for key, row in rows)


class KeyValueStore(ReadOnlyKeyValueStore[K, V], Generic[K, V]):
    """A key-value store: values by key.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> store = KeyValueStore(open_store(StoreSpec("counts", "key-value", STRING, LONG)))
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

    def put(self, key: K, value: V | None) -> None:
        """Puts the value of a key; None deletes it."""
        self._check_key(key)
        self._check_row(value)
        self._rows.put(key, value)

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Puts the value of a key that has none; returns the value it had, if any."""
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
        self._rows.put(key, None)
        return old


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]], Generic[K, V]):
    """A key-value store with a timestamp beside each value, as tables and aggregates have it.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> table = open_store(StoreSpec("counts", "key-value", STRING, LONG, timestamped=True))
    >>> TimestampedKeyValueStore(table).put("be", ValueAndTimestamp(2, 1000))
    >>> TimestampedKeyValueStore(table).get("be")
    ValueAndTimestamp(value=2, timestamp=1000)
    >>> KeyValueStore(table).get("be")
    2
    """

    __slots__ = ()
    _timestamped = True

    def get_value(self, key: K) -> V | None:
        """Returns the value of a key without its timestamp."""
        row = self._rows.get(key)
        return None if row is None else cast("V", row[0])
