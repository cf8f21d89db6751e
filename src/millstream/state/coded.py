"""A layer over stores that hold keys or values as bytes.

It is used if the keys are not hashable or the values not immutable. It serializes rows when they are put and
deserializes them at each read, so a user function that modifies a value does not change the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.state.api import BufferStore, KeyValueRowStore, SessionRowStore, VersionedRowStore, WindowRowStore
from millstream.state.codec import same
from millstream.state.spec import StoreSpec


class _CodedStore:
    """Converts keys and rows to those of the store below (``_key``, ``_row``) and back (``_to_key``, ``_to_row``)."""

    __slots__ = (
        "_key",
        "_row",
        "_store",
        "_to_key",
        "_to_row",
        "_to_value",
        "_value",
        "changed_columns",
        "changes",
        "restore",
        "spec",
    )

    def __init__(self, spec: StoreSpec, store: Any) -> None:
        self.spec = spec
        self._store = store
        self._key: Any = same if spec.key.hashable else spec.key.serialize
        self._to_key: Any = same if spec.key.hashable else spec.key.deserialize
        value: Any = same if spec.value.immutable else spec.value.serialize
        to_value: Any = same if spec.value.immutable else spec.value.deserialize
        self._value, self._to_value = value, to_value
        if spec.timestamped:
            self._row: Any = lambda row: None if row is None else (value(row[0]), row[1])
            self._to_row: Any = lambda row: None if row is None else (to_value(row[0]), row[1])
        else:
            self._row, self._to_row = value, to_value
        self.changed_columns = store.changed_columns
        self.changes = store.changes
        self.restore = store.restore

    def __len__(self) -> int:
        return len(self._store)

    @property
    def time(self) -> Any:
        return self._store.time

    def _bound(self, key: Any) -> Any:
        return None if key is None else self._key(key)


class CodedKeyValueStore(_CodedStore):
    """A key-value store over one that holds bytes."""

    __slots__ = ()
    _store: KeyValueRowStore

    def get(self, key: Any, /) -> Any:
        return self._to_row(self._store.get(self._key(key)))

    def put(self, key: Any, row: Any, /) -> None:
        self._store.put(self._key(key), self._row(row))

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        return self._pairs(self._store.range(self._bound(low), self._bound(high), reverse))

    def prefix(self, prefix: bytes, /) -> Iterator[tuple[Any, Any]]:
        return self._pairs(self._store.prefix(prefix))

    def _pairs(self, pairs: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        to_key, to_row = self._to_key, self._to_row
        return ((to_key(key), to_row(row)) for key, row in pairs)


class _CodedTimedStore(_CodedStore):
    """A layer over a store with a time."""

    __slots__ = ("release",)
    _store: WindowRowStore | SessionRowStore | VersionedRowStore

    def __init__(self, spec: StoreSpec, store: Any) -> None:
        super().__init__(spec, store)
        self.release = store.release

    @property
    def time(self) -> int:
        return self._store.time

    @time.setter
    def time(self, time: int) -> None:
        self._store.time = time


class CodedWindowStore(_CodedTimedStore):
    """A window store over one that holds bytes."""

    __slots__ = ()
    _store: WindowRowStore

    def get(self, key: Any, start: int, /) -> Any:
        return self._to_row(self._store.get(self._key(key), start))

    def put(self, key: Any, start: int, row: Any, /) -> None:
        self._store.put(self._key(key), start, self._row(row))

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        to_row = self._to_row
        return [(start, to_row(row)) for start, row in self._store.fetch(self._key(key), from_, to, reverse)]

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self._entries(self._store.fetch_all(from_, to, reverse))

    def fetch_keys(self, low: Any, high: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self._entries(self._store.fetch_keys(self._bound(low), self._bound(high), from_, to, reverse))

    def all(self, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self._entries(self._store.all(reverse))

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, Any]]:
        return self._entries(self._store.rows_between(low, high))

    def _entries(self, entries: list[tuple[Any, int, Any]]) -> list[tuple[Any, int, Any]]:
        to_key, to_row = self._to_key, self._to_row
        return [(to_key(key), start, to_row(row)) for key, start, row in entries]


class CodedSessionStore(_CodedTimedStore):
    """A session store over one that holds bytes."""

    __slots__ = ()
    _store: SessionRowStore

    def get(self, key: Any, start: int, end: int, /) -> Any:
        return self._to_row(self._store.get(self._key(key), start, end))

    def put(self, key: Any, start: int, end: int, row: Any, /) -> None:
        self._store.put(self._key(key), start, end, self._row(row))

    def remove(self, key: Any, start: int, end: int, /) -> None:
        self._store.remove(self._key(key), start, end)

    def find(self, key: Any, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Any]]:
        to_row = self._to_row
        sessions = self._store.find(self._key(key), earliest_end, latest_start, reverse)
        return [(start, end, to_row(row)) for start, end, row in sessions]

    def fetch(self, key: Any, reverse: bool = False) -> list[tuple[int, int, Any]]:
        to_row = self._to_row
        return [(start, end, to_row(row)) for start, end, row in self._store.fetch(self._key(key), reverse)]

    def fetch_keys(
        self,
        low: Any = None,
        high: Any = None,
        earliest_end: int = 0,
        latest_start: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[Any, int, int, Any]]:
        low, high = self._bound(low), self._bound(high)
        return self._entries(self._store.fetch_keys(low, high, earliest_end, latest_start, reverse))

    def find_ending(self, earliest_end: int, latest_end: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._entries(self._store.find_ending(earliest_end, latest_end))

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._entries(self._store.rows_between(low, high))

    def _entries(self, entries: list[tuple[Any, int, int, Any]]) -> list[tuple[Any, int, int, Any]]:
        to_key, to_row = self._to_key, self._to_row
        return [(to_key(key), start, end, to_row(row)) for key, start, end, row in entries]


class CodedVersionedStore(_CodedTimedStore):
    """A versioned store over one that holds bytes."""

    __slots__ = ()
    _store: VersionedRowStore

    def put(self, key: Any, value: Any, timestamp: int, /) -> int:
        return self._store.put(self._key(key), self._value(value), timestamp)

    def delete(self, key: Any, timestamp: int, /) -> tuple[Any, int] | None:
        return self._version(self._store.delete(self._key(key), timestamp))

    def get(self, key: Any, /) -> tuple[Any, int] | None:
        return self._version(self._store.get(self._key(key)))

    def get_as_of(self, key: Any, as_of: int, /) -> tuple[Any, int] | None:
        return self._version(self._store.get_as_of(self._key(key), as_of))

    def valid_to(self, key: Any, timestamp: int, /) -> int | None:
        return self._store.valid_to(self._key(key), timestamp)

    def _version(self, version: tuple[Any, int] | None) -> tuple[Any, int] | None:
        return None if version is None else (self._to_value(version[0]), version[1])


class CodedBufferStore(_CodedStore):
    """A buffer over one that holds its items as bytes."""

    __slots__ = ()
    _store: BufferStore

    def put(self, time: int, order: bytes, item: Any, /) -> None:
        self._store.put(time, order, self._value(item))

    def get(self, time: int, order: bytes, /) -> Any:
        return self._to_value(self._store.get(time, order))

    def remove(self, time: int, order: bytes, /) -> None:
        self._store.remove(time, order)

    def first(self) -> tuple[int, bytes, Any] | None:
        return self._entry(self._store.first())

    def pop_first(self) -> tuple[int, bytes, Any] | None:
        return self._entry(self._store.pop_first())

    def all(self) -> list[tuple[int, bytes, Any]]:
        return [(time, order, self._to_value(item)) for time, order, item in self._store.all()]

    def _entry(self, entry: tuple[int, bytes, Any] | None) -> tuple[int, bytes, Any] | None:
        return None if entry is None else (entry[0], entry[1], self._to_value(entry[2]))


def coded(spec: StoreSpec, store: Any) -> Any:
    """Returns a store, under the layer of its kind if its keys or values are held as bytes."""
    plain_keys = spec.key.hashable or spec.kind == "buffer"  # the order of a buffer is bytes already
    return store if plain_keys and spec.value.immutable else _LAYERS[spec.kind](spec, store)


_LAYERS: dict[str, Any] = {
    "key-value": CodedKeyValueStore,
    "window": CodedWindowStore,
    "session": CodedSessionStore,
    "versioned": CodedVersionedStore,
    "buffer": CodedBufferStore,
}
