"""Session stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar, cast

from millstream.core.records import Windowed
from millstream.state.api import SessionRowStore
from millstream.state.stores.base import StateStore
from millstream.state.stores.window import WINDOW_COLUMNS

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlySessionStore(StateStore, Generic[K, V]):
    """A session store that can be read: values by key and session."""

    __slots__ = ()
    _kind = "session"
    _rows: SessionRowStore

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """Returns the value of a session."""
        return cast("V | None", self._to_value(self._rows.get(key, start, end)))

    def find_sessions(self, key: K, earliest_end: int, latest_start: int) -> list[tuple[Windowed[K], V]]:
        """Returns the sessions of a key with ``end >= earliest_end and start <= latest_start``, by end, then start."""
        return self._of_key(key, self._rows.find(key, earliest_end, latest_start))

    def backward_find_sessions(self, key: K, earliest_end: int, latest_start: int) -> list[tuple[Windowed[K], V]]:
        """Returns the same sessions as ``find_sessions``, in descending order."""
        return self._of_key(key, self._rows.find(key, earliest_end, latest_start, True))

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed[K], V]]:
        """Returns the sessions that ``find_sessions`` does, for a range of keys; None is no bound."""
        return self._entries(self._rows.fetch_keys(key_from, key_to, earliest_end, latest_start))

    def find_sessions_ending(self, earliest_end: int, latest_end: int) -> list[tuple[Windowed[K], V]]:
        """Returns the sessions of all keys that end in a range of time, by end, start and key."""
        return self._entries(self._rows.find_ending(earliest_end, latest_end))

    def fetch(self, key: K) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a key."""
        return self._of_key(key, self._rows.fetch(key))

    def backward_fetch(self, key: K) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a key, in descending order."""
        return self._of_key(key, self._rows.fetch(key, True))

    def fetch_range(self, key_from: K | None, key_to: K | None) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a range of keys; None is no bound."""
        return self._entries(self._rows.fetch_keys(key_from, key_to))

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> list[tuple[Windowed[K], V]]:
        """Returns all sessions of a range of keys, in descending order."""
        return self._entries(self._rows.fetch_keys(key_from, key_to, reverse=True))

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        return WINDOW_COLUMNS, ((*window, value) for window, value in self.fetch_range(None, None))

    def _of_key(self, key: K, rows: list[tuple[int, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value = self._to_value
        return [(Windowed(key, start, end), to_value(row)) for start, end, row in rows]

    def _entries(self, rows: list[tuple[Any, int, int, Any]]) -> list[tuple[Windowed[K], V]]:
        to_value = self._to_value
        return [(Windowed(key, start, end), to_value(row)) for key, start, end, row in rows]


class SessionStore(ReadOnlySessionStore[K, V], Generic[K, V]):
    """A session store: values by key and session.

    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> store = SessionStore(open_store(StoreSpec("visits", "session", STRING, LONG, retention_ms=100)))
    >>> store.put(Windowed("be", 0, 10), 2)
    >>> store.put(Windowed("be", 50, 50), 1)
    >>> store.fetch_session("be", 0, 10)
    2
    >>> store.find_sessions("be", 5, 40)
    [(Windowed(key='be', start=0, end=10), 2)]
    """

    __slots__ = ()

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Puts the value of a session; None removes it."""
        self._check_row(value, session[1], session[2])
        self._rows.put(*session, value)

    def remove(self, session: Windowed[K]) -> None:
        """Removes a session."""
        self._check_row(None, session[1], session[2])
        self._rows.remove(*session)
