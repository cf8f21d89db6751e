"""The buffer, by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from typing import Any, ClassVar

from millstream.state.absent import Absent
from millstream.state.codec import Codec, buffer_key, split_buffer_key
from millstream.state.memory.buffer import MemoryBufferStore
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Collected, Cost, Pending, Taken, merged, no_times
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec


class PagedBufferStore(Pending, MemoryBufferStore):
    """Members are the entries. All are in memory, because the first of all must be found."""

    __slots__ = ("_given", "absent")

    cost: ClassVar[Cost] = Cost(row=175, byte=1.5)
    floor: ClassVar[int] = -1
    clock: ClassVar[tuple[int, int]] = (-1, 0)
    pinned: ClassVar[bool] = True

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self.absent: Absent | None = None
        self._given = []
        self._mark = self._dirty.setdefault

    def resume(self, time: int, counter: int, /) -> None:
        pass  # it has no time

    def drain(self) -> Taken:
        marks = list(self._dirty)
        return self.taken(marks, MemoryBufferStore.changes(self))

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        self._given.append(self.taken([split_buffer_key(record.key) for record in records], records))

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return no_times(keys), keys

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(marks)

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += marks

    def collect(self, members: list[Any], _low: int, _high: int, /) -> Collected:
        value_out, items = self._codec.value_out, self._items
        marks = [entry for entry in dict.fromkeys(members) if entry in items]
        rows: list[Row] = [(buffer_key(*entry), value_out(items[entry]), NO_TIMESTAMP) for entry in marks]
        return Collected(marks, marks, rows)

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        members: list[Any] = []
        for data, value, _ in merged(rows, overlay):
            entry = split_buffer_key(data)
            self._items[entry] = self._codec.value_in(value)
            heappush(self._heap, entry)
            members.append(entry)
        return members

    def evict(self, members: list[Any], low: int, high: int, /) -> None:
        raise NotImplementedError("a buffer stays in memory")

    def is_changed(self) -> Callable[[Any], bool]:
        return lambda _members: True
