"""The window store in memory that keeps every row: one side of a stream-stream join."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.absent import Absent
from millstream.state.codec import FOREVER, Codec, discard, expiry_width, segment_interval
from millstream.state.ordered import TimeIndex
from millstream.state.spec import ChangelogRecord, StoreSpec

_NEVER = 1 << 64
_SEQUENCE = 0x7FFFFFFF


class MemoryDuplicatesStore:
    """Per key a sorted list of (start, sequence number, row); rows are added and expire, nothing else."""

    __slots__ = (
        "_codec", "_expire_at", "_horizon", "_index", "_log", "_mark", "_retention", "_rows", "_segment", "_sequence",
        "_time", "_width", "absent", "spec",
    )  # fmt: skip

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        retention = FOREVER if spec.retention_ms is None else spec.retention_ms
        self.spec = spec
        self.absent: Absent | None = None
        self._codec = codec
        self._rows: dict[Any, list[tuple[int, int, Any]]] = {}
        self._log: list[tuple[Any, int, int, Any]] = []
        self._mark: Callable[[Any], Any] = self._log.append if spec.logged else discard()
        self._sequence = 0
        self._retention = retention
        self._width = expiry_width(retention)
        self._segment = segment_interval(retention)
        self._index = TimeIndex(self._width)
        self._expire_at = -_NEVER
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

    def get(self, key: Any, start: int, /) -> Any:
        found = self.fetch(key, start, start)
        return found[0][1] if found else None

    def put(self, key: Any, start: int, row: Any, /) -> None:
        if row is not None:
            self._sequence = sequence = (self._sequence + 1) & _SEQUENCE
            self._add(key, start, sequence, row)

    def _add(self, key: Any, start: int, sequence: int, row: Any) -> None:
        if start > self._time:
            self._set_time(start)
        elif start <= self._horizon:
            return
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = [(start, sequence, row)]
        elif start > rows[-1][0]:
            rows.append((start, sequence, row))
        else:
            rows.insert(bisect_left(rows, (start, sequence)), (start, sequence, row))
        self._index.add(start, key)
        self._mark((key, start, sequence, row))

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        if from_ <= self._horizon:
            from_ = self._horizon + 1
        if self.absent is not None:
            self.absent.load_key(key, from_, to)
        rows = self._rows.get(key)
        if rows is None:
            return []
        if rows[-1][0] < from_:
            return []
        found = [(start, row) for start, _, row in rows[bisect_left(rows, (from_,)) : bisect_left(rows, (to + 1,))]]
        if reverse:
            found.reverse()
        return found

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
        found: list[tuple[int, bytes, int, int, Any, Any]] = []
        for key in self._index.between(from_, to):
            name = key_out(key)
            if name < least or (greatest is not None and name > greatest):
                continue
            rows = self._rows.get(key, [])
            for start, sequence, row in rows[bisect_left(rows, (from_,)) : bisect_left(rows, (to + 1,))]:
                found.append((start // segment, name, start, sequence, key, row))
        found.sort(reverse=reverse)
        return [(key, start, row) for _, _, start, _, key, row in found]

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, Any]]:
        found = self.fetch_all(low + 1, high)
        found.sort(key=lambda entry: (entry[1], self._codec.key_out(entry[0])))
        return found

    def release(self, start: int, /) -> None:
        pass  # rows are not held

    def changes(self) -> list[ChangelogRecord]:
        codec = self._codec
        records = [
            codec.record(store_window_key(codec.key_out(key), start, sequence), row, start)
            for key, start, sequence, row in self._log
        ]
        self._log.clear()
        return records

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        codec, mark = self._codec, self._mark
        self._mark = discard()
        try:
            for record in records:
                key, start, sequence = split_store_window_key(record.key)
                self._replace(codec.key_in(key), start, sequence, codec.row(record))
                self._sequence = max(self._sequence, sequence)
        finally:
            self._mark = mark

    def _replace(self, key: Any, start: int, sequence: int, row: Any) -> None:
        rows = self._rows.get(key, [])
        place = bisect_left(rows, (start, sequence))
        if place < len(rows) and rows[place][:2] == (start, sequence):
            del rows[place]
            if not rows:
                del self._rows[key]
        if row is not None:
            self._add(key, start, sequence, row)
