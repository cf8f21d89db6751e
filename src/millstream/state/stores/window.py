"""Window stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast, overload

from millstream.core.durations import END_OF_TIME, later
from millstream.core.records import Windowed
from millstream.state.api import WindowRowStore
from millstream.state.stores.base import StateStore, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")

WINDOW_COLUMNS = ("key", "start", "end", "value")


class ReadOnlyWindowStore(StateStore, Generic[K, V]):
    """A window store that can be read: values by key and window start."""

    __slots__ = ()
    _kind = "window"
    _rows: WindowRowStore

    @overload
    def fetch(self, key: K, time_from: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time_from: int, time_to: int) -> list[tuple[int, V]]: ...
    def fetch(self, key: K, time_from: int, time_to: int | None = None) -> V | list[tuple[int, V]] | None:
        """Returns the value of the window that starts at a time, or all windows of a key that start in a range.

        The latter as (start, value), by start.
        """
        if time_to is None:
            return cast("V | None", self._to_value(self._rows.get(key, time_from)))
        return self._of_key(self._rows.fetch(key, time_from, time_to))

    def backward_fetch(self, key: K, time_from: int, time_to: int) -> list[tuple[int, V]]:
        """Returns the windows of a key that start in a range, in descending order."""
        return self._of_key(self._rows.fetch(key, time_from, time_to, True))

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns the windows of a range of keys (None is no bound) that start in a range of time."""
        return self._entries(self._rows.fetch_keys(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns the same windows as ``fetch_range``, in descending order."""
        return self._entries(self._rows.fetch_keys(key_from, key_to, time_from, time_to, True))

    def fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed[K], V]]:
        """Returns the windows of all keys that start in a range of time."""
        return self._entries(self._rows.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed[K], V]]:
        """Returns the same windows as ``fetch_all``, in descending order."""
        return self._entries(self._rows.fetch_all(time_from, time_to, True))

    def all(self) -> list[tuple[Windowed[K], V]]:
        """Returns all windows."""
        return self._entries(self._rows.all())

    def backward_all(self) -> list[tuple[Windowed[K], V]]:
        """Returns all windows, in descending order."""
        return self._entries(self._rows.all(True))

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return WINDOW_COLUMNS, ((*window, value) for window, value in self.all())

    def _of_key(self, rows: list[tuple[int, Any]]) -> list[tuple[int, V]]:
        to_value = self._to_value
        return [(start, to_value(row)) for start, row in rows]

    def _entries(self, rows: list[tuple[Any, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value, size = self._to_value, self._rows.spec.window_size_ms
        if size is None:
            size = END_OF_TIME
        return [(Windowed(key, start, later(start, size)), to_value(row)) for key, start, row in rows]


class WindowStore(ReadOnlyWindowStore[K, V], Generic[K, V]):
    """A window store: values by key and window start.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> spec = StoreSpec("counts", "window", STRING, LONG, retention_ms=100, window_size_ms=10)
    >>> store = WindowStore(open_store(spec))
    >>> store.put("be", 2, 0)
    >>> store.put("be", 1, 10)
    >>> store.put("to", 1, 10)
    >>> store.fetch("be", 0)
    2
    >>> store.fetch("be", 0, 10)
    [(0, 2), (10, 1)]
    >>> store.fetch_all(10, 20)
    [(Windowed(key='be', start=10, end=20), 1), (Windowed(key='to', start=10, end=20), 1)]
    """

    __slots__ = ()

    def put(self, key: K, value: V | None, start: int) -> None:
        """Puts the value of a key in the window that starts at ``start``; None deletes it."""
        self._check_key(key)
        self._check_row(value, start)
        self._rows.put(key, start, value)


class TimestampedWindowStore(WindowStore[K, ValueAndTimestamp[V]], Generic[K, V]):
    """A window store with a timestamp beside each value, as windowed aggregates have it."""

    __slots__ = ()
    _timestamped = True
