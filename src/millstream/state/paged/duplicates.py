"""The window store that keeps every row, by page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.codec import Codec
from millstream.state.memory.duplicates import MemoryDuplicatesStore
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Collected, Cost, Pending, Taken, encoded, merged, times_in
from millstream.state.spec import ChangelogRecord, StoreSpec


class PagedDuplicatesStore(Pending, MemoryDuplicatesStore):
    """Members are the keys; the rows of a page are those of its keys in the time of its segment."""

    __slots__ = ("_given",)

    cost: ClassVar[Cost] = Cost(row=165, byte=1.5)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._given = []
        self._mark = self._log.append

    @property
    def floor(self) -> int:
        return self._horizon

    @property
    def clock(self) -> tuple[int, int]:
        return self._time, self._sequence

    def resume(self, time: int, counter: int, /) -> None:
        self._set_time(time)
        self._sequence = counter

    def drain(self) -> Taken:
        marks = [mark[0] for mark in self._log]
        return self.taken(marks, MemoryDuplicatesStore.changes(self))

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        marks = [self._codec.key_in(split_store_window_key(record.key)[0]) for record in records]
        self._given.append(self.taken(marks, records))

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return times_in(keys, 12), [key[:-12] for key in keys]

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(dict.fromkeys(marks))

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += marks

    def collect(self, members: list[Any], low: int, high: int, /) -> Collected:
        key_out = self._codec.key_out
        low = max(low, self._horizon + 1)
        marks: list[Any] = []
        names: list[bytes] = []
        found: list[Any] = []
        for key in dict.fromkeys(members):
            rows = self._rows.get(key, [])
            name = key_out(key)
            for start, sequence, row in rows[bisect_left(rows, (low,)) : bisect_left(rows, (high + 1,))]:
                marks.append(key)
                names.append(store_window_key(name, start, sequence))
                found.append(row)
        return Collected(self.members(marks, ()), marks, encoded(self._codec, names, found))

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        key_in, row_in, horizon = self._codec.key_in, self._codec.row_in, self._horizon
        marks: list[Any] = []
        for data, value, timestamp in merged(rows, overlay):
            name, start, sequence = split_store_window_key(data)
            if start <= horizon:
                continue
            key = key_in(name)
            held = self._rows.setdefault(key, [])
            held.insert(bisect_left(held, (start, sequence)), (start, sequence, row_in(value, timestamp)))
            self._index.add(start, key)
            marks.append(key)
        return self.members(marks, ())

    def evict(self, members: list[Any], low: int, high: int, /) -> None:
        for key in members:
            rows = self._rows.get(key)
            if rows is not None:
                del rows[bisect_left(rows, (low,)) : bisect_left(rows, (high + 1,))]
                if not rows:
                    del self._rows[key]
        self._index.forget(low, high, members)

    def is_changed(self) -> Callable[[Any], bool]:
        changed = {mark[0] for mark in self._log}.union(self.given_marks())
        return lambda members: not changed.isdisjoint(members)
