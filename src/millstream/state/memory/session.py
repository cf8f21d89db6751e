"""The session store in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from millstream.serde.key_layouts import session_key, split_session_key
from millstream.state.codec import FOREVER, Codec
from millstream.state.memory.sorted_rows import SortedRowsStore
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec


def _ignore(_session: Any, _row: Any) -> None:
    """Stands in for the recording of changes while it is off."""


class MemorySessionStore(SortedRowsStore):
    """Per key a list of (end, start, row) in that order. A key has few sessions at a time."""

    __slots__ = ("_dirty", "_mark")

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._dirty: dict[tuple[Any, int, int], Any] = {}
        self._mark: Callable[[Any, Any], Any]
        self._record_changes(self._logged)

    def _record_changes(self, on: bool) -> None:
        self._mark = self._dirty.__setitem__ if on else _ignore

    def get(self, key: Any, start: int, end: int, /) -> Any:
        if end <= self._horizon:
            return None
        if self.loader is not None:
            self.loader.load_key(key, end, end)
        rows = self._rows.get(key)
        if rows is None:
            return None
        place = bisect_left(rows, (end, start))
        if place < len(rows):
            session = rows[place]
            if session[0] == end and session[1] == start:
                return session[2]
        return None

    def put(self, key: Any, start: int, end: int, row: Any, /) -> None:
        if row is None:
            self.remove(key, start, end)
            return
        if end > self._time:
            self._set_time(end)
            if end <= self._floor:  # with a retention of 0 no row is ever visible, but the time advances
                self._mark((key, end, start), None)
                return
        elif end <= self._floor:
            return
        self._mark((key, end, start), row)
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = [(end, start, row)]
        else:
            place = bisect_left(rows, (end, start))
            if place < len(rows) and rows[place][0] == end and rows[place][1] == start:
                rows[place] = (end, start, row)
                return
            rows.insert(place, (end, start, row))
        self._index.add(end, key)

    def remove(self, key: Any, start: int, end: int, /) -> None:
        if end > self._time:
            self._set_time(end)
        elif end <= self._floor:
            return
        self._mark((key, end, start), None)
        rows = self._rows.get(key)
        if rows is None:
            return
        place = bisect_left(rows, (end, start))
        if place == len(rows) or rows[place][0] != end or rows[place][1] != start:
            return
        del rows[place]
        if not rows:
            del self._rows[key]
        if self._held and not ((place and rows[place - 1][0] == end) or (place < len(rows) and rows[place][0] == end)):
            self._index.discard(end, key)

    def find(self, key: Any, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Any]]:
        if earliest_end <= self._horizon:
            earliest_end = self._horizon + 1
        if self.loader is not None:
            self.loader.load_key(key, earliest_end, self._time)
        rows = self._rows.get(key)
        if rows is None:
            return []
        place = bisect_left(rows, (earliest_end,))
        sessions = [(start, end, row) for end, start, row in rows[place:] if start <= latest_start]
        if reverse:
            sessions.reverse()
        return sessions

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
        latest = FOREVER if latest_start is None else latest_start
        entries = [entry for entry in self._of_keys(low, high, earliest_end, self._time) if entry[3] <= latest]
        # Key, end and start are unique together: the sort never compares keys or rows.
        entries.sort(reverse=reverse)
        return [(key, start, end, row) for _, _, end, start, key, row in entries]

    def find_ending(self, earliest_end: int, latest_end: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._ending(max(earliest_end, self._horizon + 1), latest_end)

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._ending(max(low, self._floor) + 1, high)

    def _ending(self, from_: int, to: int) -> list[tuple[Any, int, int, Any]]:
        if self.loader is not None:
            self.loader.load_between(from_, to)
        entries: list[tuple[int, int, bytes, Any, Any]] = []
        for key in self._index.between(from_, to):
            name = self._codec.key_out(key)
            for end, start, row in self._between(key, from_, to):
                entries.append((end, start, name, key, row))
        entries.sort()
        return [(key, start, end, row) for end, start, _, key, row in entries]

    def changed_columns(self) -> Changes:
        codec, sessions = self._codec, list(self._dirty)
        # Rows as they were put: when an expired row is dropped depends on when the store was last loaded.
        rows = list(self._dirty.values())
        self._dirty.clear()
        names = codec.keys_out([session[0] for session in sessions])
        ends = [session[1] for session in sessions]
        keys = list(map(session_key, names, [session[2] for session in sessions], ends))
        return codec.changes(keys, rows, ends)

    def _apply(self, record: ChangelogRecord) -> None:
        name, start, end = split_session_key(record.key)
        self.put(self._codec.key_in(name), start, end, self._codec.row(record))
