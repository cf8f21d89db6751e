"""The window store, by page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from operator import add
from typing import Any, ClassVar

from millstream.state.codec import Codec, split_window_key, window_key
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Cost, Pending, encoded, merged, times_in
from millstream.state.spec import ChangelogRecord, StoreSpec
from millstream.state.window import MemoryWindowStore


class PagedWindowStore(Pending, MemoryWindowStore):
    """Members are lists of keys by start."""

    __slots__ = ("_marks", "_records")

    cost: ClassVar[Cost] = Cost(row=145, byte=1.6, member=340)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._marks = []
        self._records = []
        self._mark = self._dirty.__setitem__

    @property
    def floor(self) -> int:
        return self._floor

    @property
    def clock(self) -> tuple[int, int]:
        return self._time, 0

    def resume(self, time: int, _counter: int, /) -> None:
        self._set_time(time)

    def changes(self) -> list[ChangelogRecord]:
        marks = list(self._dirty)
        records = MemoryWindowStore.changes(self)
        self._marks += marks
        self._records += records
        return records

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        for record in records:
            key, start, _ = split_window_key(record.key)
            mark = (self._codec.key_in(key), start)
            self._dirty.pop(mark, None)
            self._marks.append(mark)
        self._records += records

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return times_in(keys, 12), [key[:-12] for key in keys]

    def members(self, marks: Iterable[Any], /) -> dict[int, list[Any]]:
        members: dict[int, list[Any]] = {}
        self.extend(members, marks)
        return members

    def extend(self, members: dict[int, list[Any]], marks: Iterable[Any], /) -> None:
        marks = list(marks)
        starts = {start for _, start in marks}
        if len(starts) == 1:  # nearly always
            members.setdefault(starts.pop(), []).extend([key for key, _ in marks])
            return
        for key, start in marks:
            members.setdefault(start, []).append(key)

    def collect(self, members: dict[int, list[Any]], _low: int, _high: int, /) -> tuple[list[Any], list[Row]]:
        codec = self._codec
        marks: list[Any] = []
        collected: list[Row] = []
        for start, keys in members.items():
            held = self._rows.get(start)
            if held is None or start <= self._floor:
                continue
            get, suffix = held.get, window_key(b"", start)
            rows = {key: row for key in keys if (row := get(key)) is not None}
            marks += [(key, start) for key in rows]
            names = map(add, codec.keys_out(rows), repeat(suffix))
            collected += encoded(self.spec, codec, names, rows.values())
        return marks, collected

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> dict[int, list[Any]]:
        key_in, row_in, changed, index = self._codec.key_in, self._codec.row_in, self._changed(), self._index
        marks: list[Any] = []
        for data, value, timestamp in merged(rows, overlay):
            name, start, _ = split_window_key(data)
            if start <= self._floor:
                continue
            key = key_in(name)
            mark = (key, start)
            if mark in changed:
                continue
            held = self._rows.get(start)
            if held is None:
                held = self._add_start(start)
            held[key] = row_in(value, timestamp)
            if index is not None:
                self._add_to_index(index, key, start)
            marks.append(mark)
        return self.members(marks)

    def evict(self, members: dict[int, list[Any]], _low: int, _high: int, /) -> None:
        for start, keys in members.items():
            held = self._rows.get(start)
            if held is None:
                continue
            for key in dict.fromkeys(keys):
                self._delete(held, key, start)
            if not held:
                del self._rows[start]
                del self._starts[bisect_left(self._starts, start)]

    def is_changed(self) -> Callable[[Any], bool]:
        changed = self._changed()
        return lambda members: any((key, start) in changed for start, keys in members.items() for key in keys)

    def _changed(self) -> Collection[Any]:
        return {*self._dirty, *self._marks} if self._marks else self._dirty
