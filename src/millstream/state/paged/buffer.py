"""The paged buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Any, ClassVar

from millstream.state.codec import buffer_key, split_buffer_key
from millstream.state.memory.buffer import MemoryBufferStore
from millstream.state.paged.format import PageRow
from millstream.state.paged.rows import merged
from millstream.state.paged.store import MemoryCost, PageContent, PagedStore
from millstream.state.spec import NO_TIMESTAMP


class PagedBufferStore(PagedStore, MemoryBufferStore):
    """Members are the entries. All are in memory, because the first entry of all pages must be known."""

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=175, byte=1.5)
    pinned: ClassVar[bool] = True

    def _marks(self) -> Iterable[Any]:
        return self._dirty

    def collect(self, members: list[Any], _low: int, _high: int, /) -> PageContent:
        value_out, items = self._codec.value_out, self._items
        marks = [entry for entry in dict.fromkeys(members) if entry in items]
        rows: list[PageRow] = [(buffer_key(*entry), value_out(items[entry]), NO_TIMESTAMP) for entry in marks]
        return PageContent(marks, marks, rows)

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        members: list[Any] = []
        for data, value, _ in merged(rows, overlay):
            entry = split_buffer_key(data)
            self._items[entry] = self._codec.value_in(value)
            heappush(self._heap, entry)
            members.append(entry)
        return members

    def _remember(self, since: dict[Any, Any]) -> None:
        since.update(self._dirty)

    def _recall(self, since: dict[Any, Any]) -> None:
        self._dirty.update(since)

    def is_changed(self) -> Callable[[Any], bool]:
        return lambda _members: True
