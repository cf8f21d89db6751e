"""The session store in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from millstream.serde.key_layouts import session_key, split_session_key
from millstream.state.absent import Absent
from millstream.state.codec import FOREVER, Codec, expiry_width, segment_interval
from millstream.state.ordered import TimeIndex
from millstream.state.spec import ChangelogRecord, StoreSpec

_NEVER = 1 << 64


def _forget(_mark: Any, _row: Any) -> None:
    """Notes nothing: what becomes of the store is not asked for."""


class MemorySessionStore:
    """Per key a list of (end, start, row) in that order, and an index of the keys by end.

    A key has few sessions at a time. The index is exact in a held store, which must find the sessions that end in a
    range; else it is coarse, and serves expiry alone.
    """

    __slots__ = (
        "_codec", "_dirty", "_expire_at", "_floor", "_horizon", "_index", "_mark", "_release_at", "_released",
        "_retention", "_rows", "_segment", "_time", "_width", "absent", "spec",
    )  # fmt: skip

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        retention = FOREVER if spec.retention_ms is None else spec.retention_ms
        self.spec = spec
        self.absent: Absent | None = None
        self._codec = codec
        self._rows: dict[Any, list[tuple[int, int, Any]]] = {}
        self._dirty: dict[tuple[Any, int, int], Any] = {}
        self._mark: Callable[[Any, Any], Any] = self._dirty.__setitem__ if spec.logged else _forget
        self._retention = retention
        self._width = expiry_width(retention)
        self._segment = segment_interval(retention)
        self._index = TimeIndex(1 if spec.held else self._width)
        self._released = -_NEVER
        self._release_at = -_NEVER
        self._expire_at = _NEVER if spec.held else -_NEVER
        self._set_time(-1)

    def __len__(self) -> int:
        rows = sum(map(len, self._rows.values()))
        return rows if self.absent is None else rows + self.absent.rows

    @property
    def time(self) -> int:
        return self._time

    @time.setter
    def time(self, time: int) -> None:
        self._set_time(time)

    def _set_time(self, time: int) -> None:
        self._time = time
        self._horizon = horizon = time - self._retention
        self._floor = min(horizon, self._released) if self.spec.held else horizon
        if horizon >= self._expire_at:
            self._expire(horizon)
            self._expire_at = horizon + self._width

    def _expire(self, limit: int) -> None:
        for key in self._index.expire(limit):
            rows = self._rows.get(key)
            if rows is None:
                continue
            if rows[-1][0] <= limit:
                del self._rows[key]
            else:
                del rows[: bisect_left(rows, (limit + 1,))]

    def get(self, key: Any, start: int, end: int, /) -> Any:
        if end <= self._horizon:
            return None
        if self.absent is not None:
            self.absent.load_key(key, end, end)
        rows = self._rows.get(key)
        if rows is None:
            return None
        place = bisect_left(rows, (end, start))
        if place < len(rows):
            found = rows[place]
            if found[0] == end and found[1] == start:
                return found[2]
        return None

    def put(self, key: Any, start: int, end: int, row: Any, /) -> None:
        if row is None:
            self.remove(key, start, end)
            return
        if end > self._time:
            self._set_time(end)
            if end <= self._floor:  # nothing is ever visible with a retention of 0; the time moves all the same
                self._mark((key, start, end), None)
                return
        elif end <= self._floor:
            return
        self._mark((key, start, end), row)
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
        self._mark((key, start, end), None)
        rows = self._rows.get(key)
        if rows is None:
            return
        place = bisect_left(rows, (end, start))
        if place == len(rows) or rows[place][0] != end or rows[place][1] != start:
            return
        del rows[place]
        if not rows:
            del self._rows[key]
        if self.spec.held and not (
            (place and rows[place - 1][0] == end) or (place < len(rows) and rows[place][0] == end)
        ):
            self._index.discard(end, key)

    def find(self, key: Any, earliest_end: int, latest_start: int, reverse: bool = False) -> list[tuple[int, int, Any]]:
        if earliest_end <= self._horizon:
            earliest_end = self._horizon + 1
        if self.absent is not None:
            self.absent.load_key(key, earliest_end, self._time)
        rows = self._rows.get(key)
        if rows is None:
            return []
        place = bisect_left(rows, (earliest_end,))
        found = [(start, end, row) for end, start, row in rows[place:] if start <= latest_start]
        if reverse:
            found.reverse()
        return found

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
        key_out, segment = self._codec.key_out, self._segment
        least = b"" if low is None else key_out(low)
        greatest = None if high is None else key_out(high)
        latest = FOREVER if latest_start is None else latest_start
        earliest_end = max(earliest_end, self._horizon + 1)
        if self.absent is not None:
            self.absent.load_between(earliest_end, self._time)
        found: list[tuple[int, bytes, int, int, Any, Any]] = []
        for key in self._index.between(earliest_end, self._time):
            name = key_out(key)
            if least <= name and (greatest is None or name <= greatest):
                for start, end, row in self.find(key, earliest_end, latest):
                    found.append((end // segment, name, end, start, key, row))
        # Key, end and start are unique together: the sort never compares keys or rows.
        found.sort(reverse=reverse)
        return [(key, start, end, row) for _, _, end, start, key, row in found]

    def find_ending(self, earliest_end: int, latest_end: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._ending(max(earliest_end, self._horizon + 1), latest_end)

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, int, Any]]:
        return self._ending(max(low, self._floor) + 1, high)

    def _ending(self, from_: int, to: int) -> list[tuple[Any, int, int, Any]]:
        if self.absent is not None:
            self.absent.load_between(from_, to)
        found: list[tuple[int, int, bytes, Any, Any]] = []
        for key in self._index.between(from_, to):
            name = self._codec.key_out(key)
            rows = self._rows.get(key, [])
            for end, start, row in rows[bisect_left(rows, (from_,)) : bisect_left(rows, (to + 1,))]:
                found.append((end, start, name, key, row))
        found.sort()
        return [(key, start, end, row) for end, start, _, key, row in found]

    def release(self, end: int, /) -> None:
        if not self.spec.held or end <= self._released:
            return
        self._released = end
        self._floor = floor = min(self._horizon, end)
        if floor >= self._release_at:
            self._expire(floor)
            self._release_at = floor + self._width

    def changes(self) -> list[ChangelogRecord]:
        codec = self._codec
        # As they were put: when a row that is no longer visible goes depends on when the store was last loaded.
        records = [
            codec.record(session_key(codec.key_out(key), start, end), row, end)
            for (key, start, end), row in self._dirty.items()
        ]
        self._dirty.clear()
        return records

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        codec, mark = self._codec, self._mark
        self._mark = _forget
        try:
            for record in records:
                key, start, end = split_session_key(record.key)
                self.put(codec.key_in(key), start, end, codec.row(record))
        finally:
            self._mark = mark
