"""The views of window and session stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast, overload

from millstream.core.durations import END_OF_TIME, later
from millstream.core.records import Windowed
from millstream.state.api import SessionStore, WindowStore
from millstream.state.view_base import ValueAndTimestamp, View

K = TypeVar("K")
V = TypeVar("V")

_WINDOW_COLUMNS = ("key", "start", "end", "value")


class WindowView(View, Generic[K, V]):
    """A window store: values by key and window start.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> spec = StoreSpec("counts", "window", STRING, LONG, retention_ms=100, window_size_ms=10)
    >>> store = WindowView(open_store(spec))
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
    _kind = "window"
    _store: WindowStore

    def put(self, key: K, value: V | None, start: int) -> None:
        """Puts the value of a key in the window that begins at ``start``; None deletes it."""
        self._check_key(key)
        self._check_row(value, start)
        self._store.put(key, start, value)

    @overload
    def fetch(self, key: K, time_from: int) -> V | None: ...
    @overload
    def fetch(self, key: K, time_from: int, time_to: int) -> list[tuple[int, V]]: ...
    def fetch(self, key: K, time_from: int, time_to: int | None = None) -> V | list[tuple[int, V]] | None:
        """Returns the value of the window that begins at a time, or all windows of a key that begin in a range.

        The latter as (start, value), by start.
        """
        if time_to is None:
            return cast("V | None", self._row(self._store.get(key, time_from)))
        return self._of_key(self._store.fetch(key, time_from, time_to))

    def backward_fetch(self, key: K, time_from: int, time_to: int) -> list[tuple[int, V]]:
        """Returns the windows of a key that begin in a range, the last one first."""
        return self._of_key(self._store.fetch(key, time_from, time_to, True))

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns the windows of a range of keys (None is no bound) that begin in a range of time."""
        return self._entries(self._store.fetch_keys(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns what ``fetch_range`` does, the last one first."""
        return self._entries(self._store.fetch_keys(key_from, key_to, time_from, time_to, True))

    def fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed[K], V]]:
        """Returns the windows of all keys that begin in a range of time."""
        return self._entries(self._store.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed[K], V]]:
        """Returns what ``fetch_all`` does, the last one first."""
        return self._entries(self._store.fetch_all(time_from, time_to, True))

    def all(self) -> list[tuple[Windowed[K], V]]:
        """Returns all windows."""
        return self._entries(self._store.all())

    def backward_all(self) -> list[tuple[Windowed[K], V]]:
        """Returns all windows, the last one first."""
        return self._entries(self._store.all(True))

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return _WINDOW_COLUMNS, ((*window, value) for window, value in self.all())

    def _of_key(self, rows: list[tuple[int, Any]]) -> list[tuple[int, V]]:
        to_value = self._row
        return [(start, to_value(row)) for start, row in rows]

    def _entries(self, rows: list[tuple[Any, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value, size = self._row, self._store.spec.window_size_ms
        if size is None:
            size = END_OF_TIME
        return [(Windowed(key, start, later(start, size)), to_value(row)) for key, start, row in rows]


class TimestampedWindowView(WindowView[K, ValueAndTimestamp[V]], Generic[K, V]):
    """A window store with the timestamps of its values, as windowed aggregates have it."""

    __slots__ = ()
    _timestamped = True


class SessionView(View, Generic[K, V]):
    """A session store: values by key and session.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> store = SessionView(open_store(StoreSpec("visits", "session", STRING, LONG, retention_ms=100)))
    >>> store.put(Windowed("be", 0, 10), 2)
    >>> store.put(Windowed("be", 50, 50), 1)
    >>> store.fetch_session("be", 0, 10)
    2
    >>> store.find_sessions("be", 5, 40)
    [(Windowed(key='be', start=0, end=10), 2)]
    """

    __slots__ = ()
    _kind = "session"
    _store: SessionStore

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Puts the value of a session; None removes it."""
        self._check_row(value, session[1], session[2])
        self._store.put(*session, value)

    def remove(self, session: Windowed[K]) -> None:
        """Removes a session."""
        self._check_row(None, session[1], session[2])
        self._store.remove(*session)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """Returns the value of a session."""
        return cast("V | None", self._row(self._store.get(key, start, end)))

    def find_sessions(self, key: K, earliest_end: int, latest_start: int) -> list[tuple[Windowed[K], V]]:
        """Returns the sessions of a key with ``end >= earliest_end and start <= latest_start``, by end, then start."""
        return self._of_key(key, self._store.find(key, earliest_end, latest_start))

    def backward_find_sessions(self, key: K, earliest_end: int, latest_start: int) -> list[tuple[Windowed[K], V]]:
        """Returns what ``find_sessions`` does, the last one first."""
        return self._of_key(key, self._store.find(key, earliest_end, latest_start, True))

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns what ``find_sessions`` does for a range of keys; None is no bound."""
        return self._entries(self._store.fetch_keys(key_from, key_to, earliest_end, latest_start))

    def find_sessions_ending(self, earliest_end: int, latest_end: int) -> list[tuple[Windowed[K], V]]:
        """Returns the sessions of all keys that end in a range of time, by end, start and key."""
        return self._entries(self._store.find_ending(earliest_end, latest_end))

    def fetch(self, key: K) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a key."""
        return self._of_key(key, self._store.fetch(key))

    def backward_fetch(self, key: K) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a key, the last one first."""
        return self._of_key(key, self._store.fetch(key, True))

    def fetch_range(self, key_from: K | None, key_to: K | None) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a range of keys; None is no bound."""
        return self._entries(self._store.fetch_keys(key_from, key_to))

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a range of keys, the last one first."""
        return self._entries(self._store.fetch_keys(key_from, key_to, reverse=True))

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return _WINDOW_COLUMNS, ((*window, value) for window, value in self.fetch_range(None, None))

    def _of_key(self, key: K, rows: list[tuple[int, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value = self._row
        return [(Windowed(key, start, end), to_value(row)) for start, end, row in rows]

    def _entries(self, rows: list[tuple[Any, int, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value = self._row
        return [(Windowed(key, start, end), to_value(row)) for key, start, end, row in rows]
