"""The window store in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any

from millstream.state.absent import AHEAD, Absent
from millstream.state.codec import FOREVER, Codec, expiry_width, ignore, segment_width, split_window_key, window_key
from millstream.state.spec import ChangelogRecord, StoreSpec

_NEVER = 1 << 64
_PROBED = 32


class MemoryWindowStore:
    """Rows by start, then key: a dict of dicts, and the sorted list of the starts.

    Tumbling and hopping windows have few starts with many keys each: a row is one entry of a large dict, and expiry
    drops the dict. Sliding windows and processors have many starts: the first fetch over many of them makes an index of
    the starts of each key, kept up to date from then on. Rows that are no longer visible are dropped now and then, when
    time has grown by an eighth of the retention, so look-ups compare with the horizon.
    """

    __slots__ = (
        "_codec", "_dirty", "_expire_at", "_floor", "_horizon", "_index", "_lag", "_mark", "_release_at", "_released",
        "_rows", "_segment", "_starts", "_time", "_width", "absent", "spec",
    )  # fmt: skip

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        retention = FOREVER if spec.retention_ms is None else spec.retention_ms
        self.spec = spec
        self.absent: Absent | None = None
        self._codec = codec
        self._rows: dict[int, dict[Any, Any]] = {}
        self._starts: list[int] = []
        self._index: dict[Any, list[int]] | None = None
        self._dirty: dict[tuple[Any, int], Any] = {}
        self._mark: Callable[[Any, Any], Any] = self._dirty.__setitem__ if spec.logged else ignore()
        self._width = expiry_width(retention)
        self._segment = segment_width(retention)
        # A row is visible if start > horizon, kept if start > floor. They differ in a held store only.
        self._lag = retention + 1 if spec.held else retention
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
        self._horizon = horizon = time - self._lag
        self._floor = min(horizon, self._released) if self.spec.held else horizon
        if horizon >= self._expire_at:
            self._expire(horizon)
            self._expire_at = horizon + self._width

    def get(self, key: Any, start: int, /) -> Any:
        if start <= self._horizon:
            return None
        rows = self._rows.get(start)
        if rows is not None:
            row = rows.get(key)
            if row is not None:
                return row
        if self.absent is None:
            return None
        self.absent.load_key(key, start, start)
        return self._rows.get(start, {}).get(key)

    def put(self, key: Any, start: int, row: Any, /) -> None:
        if start > self._time:
            self._set_time(start)
            if start <= self._floor:  # nothing is ever visible with a retention of 0; the time moves all the same
                self._mark((key, start), None)
                return
        elif start <= self._floor:
            return
        rows = self._rows.get(start)
        if row is None:
            self._delete(rows, key, start)
        else:
            if rows is None:
                rows = self._add_start(start)
            if self._index is not None and key not in rows:
                self._add_to_index(self._index, key, start)
            rows[key] = row
        self._mark((key, start), row)

    def count_all(self, keys: Sequence[Any], start: int, times: Sequence[int]) -> tuple[list[int], list[int]]:
        """Adds one to the rows of keys in a window that is not past the retention, for each time that a key is there.

        Returns:
            The counts, and the greatest times, after each.
        """
        if start > self._time:
            self._set_time(start)
        if self.absent is None or len(keys) <= AHEAD:
            made = self._count(keys, start, times)
        else:
            made = []
            for begin in range(0, len(keys), AHEAD):
                made += self._count(keys[begin : begin + AHEAD], start, times[begin : begin + AHEAD])
        return [count for count, _ in made], [time for _, time in made]

    def _count(self, keys: Sequence[Any], start: int, times: Sequence[int]) -> list[tuple[int, int]]:
        mark = self._mark
        made: list[tuple[int, int]] = []
        rows = self._rows_of(start)
        if self.absent is not None and any(key not in rows for key in keys):
            self.absent.load_keys(keys, start, start)  # all, so that none goes for another
            rows = self._rows_of(start)  # others may have gone, and this with the last one
        for key, time in zip(keys, times, strict=True):
            row = rows.get(key)
            if row is None:
                if self._index is not None:
                    self._add_to_index(self._index, key, start)
                row = (1, time)
            else:
                count, before = row
                row = (count + 1, max(before, time))
            rows[key] = row
            mark((key, start), row)
            made.append(row)
        return made

    def _rows_of(self, start: int) -> dict[Any, Any]:
        rows = self._rows.get(start)
        return self._add_start(start) if rows is None else rows

    def _add_start(self, start: int) -> dict[Any, Any]:
        starts = self._starts
        if not starts or start > starts[-1]:
            starts.append(start)
        else:
            insort(starts, start)
        rows: dict[Any, Any] = {}
        self._rows[start] = rows
        return rows

    def _delete(self, rows: dict[Any, Any] | None, key: Any, start: int) -> None:
        if rows is None or rows.pop(key, None) is None:
            return
        if self._index is not None:
            starts = self._index[key]
            del starts[bisect_left(starts, start)]
            if not starts:
                del self._index[key]

    @staticmethod
    def _add_to_index(index: dict[Any, list[int]], key: Any, start: int) -> None:
        starts = index.get(key)
        if starts is None:
            index[key] = [start]
        elif start > starts[-1]:
            starts.append(start)
        else:
            insort(starts, start)

    def _expire(self, limit: int) -> None:
        end = bisect_right(self._starts, limit)
        gone = self._starts[:end]
        del self._starts[:end]
        index = self._index
        if index is None:
            for start in gone:
                del self._rows[start]
            return
        for key in set().union(*[self._rows.pop(start) for start in gone]):
            starts = index[key]
            if starts[-1] <= limit:
                del index[key]
            else:
                del starts[: bisect_right(starts, limit)]

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        if from_ <= self._horizon:
            from_ = self._horizon + 1
        if self.absent is not None:
            self.absent.load_key(key, from_, to)
        rows = self._rows
        index = self._index
        if index is None:
            starts = self._starts
            starts = starts[bisect_left(starts, from_) : bisect_right(starts, to)]
            if len(starts) <= _PROBED:
                found = [(start, rows[start][key]) for start in starts if key in rows[start]]
                if reverse:
                    found.reverse()
                return found
            index = self._make_index()
        starts = index.get(key, [])
        starts = starts[bisect_left(starts, from_) : bisect_right(starts, to)]
        if reverse:
            starts.reverse()
        return [(start, rows[start][key]) for start in starts]

    def _make_index(self) -> dict[Any, list[int]]:
        index: dict[Any, list[int]] = {}
        for start in self._starts:
            for key in self._rows[start]:
                self._add_to_index(index, key, start)
        self._index = index
        return index

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, from_, to, reverse)

    def all(self, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, self._horizon + 1, self._time, reverse)

    def fetch_keys(self, low: Any, high: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        key_out, segment = self._codec.key_out, self._segment
        least = b"" if low is None else key_out(low)
        greatest = None if high is None else key_out(high)
        from_ = max(from_, self._horizon + 1)
        if self.absent is not None:
            self.absent.load_between(from_, to)
        names: dict[Any, bytes] = {}
        found: list[tuple[int, bytes, int, Any, Any]] = []
        starts = self._starts
        for start in starts[bisect_left(starts, from_) : bisect_right(starts, to)]:
            for key, row in self._rows[start].items():
                name = names.get(key)
                if name is None:
                    name = names[key] = key_out(key)
                if least <= name and (greatest is None or name <= greatest):
                    found.append((start // segment, name, start, key, row))
        # Segment, key and start are unique together: the sort never compares keys or rows.
        found.sort(reverse=reverse)
        return [(key, start, row) for _, _, start, key, row in found]

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, Any]]:
        low = max(low, self._floor)
        if self.absent is not None:
            self.absent.load_between(low + 1, high)
        starts, key_out = self._starts, self._codec.key_out
        found: list[tuple[Any, int, Any]] = []
        for start in starts[bisect_right(starts, low) : bisect_right(starts, high)]:
            rows = self._rows[start]
            found.extend([(key, start, rows[key]) for key in sorted(rows, key=key_out)])
        return found

    def release(self, start: int, /) -> None:
        if not self.spec.held or start <= self._released:
            return
        self._released = start
        self._floor = floor = min(self._horizon, start)
        if floor >= self._release_at:
            self._expire(floor)
            self._release_at = floor + self._width

    def changes(self) -> list[ChangelogRecord]:
        if not self._dirty:
            return []
        keys, starts = [key for key, _ in self._dirty], [start for _, start in self._dirty]
        rows = list(self._dirty.values())
        self._dirty.clear()
        suffixes = {start: window_key(b"", start) for start in set(starts)}
        ends = map(suffixes.__getitem__, starts)
        return self._codec.records(list(map(add, self._codec.keys_out(keys), ends)), rows, starts)

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        codec, mark = self._codec, self._mark
        self._mark = ignore()
        try:
            for record in records:
                key, start, _ = split_window_key(record.key)
                self.put(codec.key_in(key), start, codec.row(record))
        finally:
            self._mark = mark
