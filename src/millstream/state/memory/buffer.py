"""The buffer in memory."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from millstream.state.codec import Codec, buffer_key, discard, split_buffer_key
from millstream.state.memory.base import MemoryStore
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec


class MemoryBufferStore(MemoryStore):
    """A dict of items and a heap of their keys. The key of a removed item leaves the heap when it reaches the top.

    The heap is rebuilt when most of its keys belong to removed items, so that its size follows that of the dict.
    """

    __slots__ = ("_dirty", "_heap", "_items", "_mark")

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._items: dict[tuple[int, bytes], Any] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._dirty: dict[tuple[int, bytes], None] = {}
        self._mark: Callable[[Any], Any]
        self._record_changes(self._logged)

    def _record_changes(self, on: bool) -> None:
        self._mark = self._dirty.setdefault if on else discard()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, time: int, order: bytes, item: Any, /) -> None:
        entry = (time, order)
        if entry not in self._items:
            heappush(self._heap, entry)
        self._items[entry] = item
        self._mark(entry)

    def get(self, time: int, order: bytes, /) -> Any:
        return self._items.get((time, order))

    def remove(self, time: int, order: bytes, /) -> None:
        self._remove((time, order))

    def _remove(self, entry: tuple[int, bytes]) -> None:
        items = self._items
        if items.pop(entry, None) is not None:
            self._mark(entry)
            if len(self._heap) > 2 * len(items) + 64:
                self._heap = list(items)
                heapify(self._heap)

    def first(self) -> tuple[int, bytes, Any] | None:
        heap, items = self._heap, self._items
        while heap:
            entry = heap[0]
            item = items.get(entry)
            if item is not None:
                return (*entry, item)
            heappop(heap)
        return None

    def pop_first(self) -> tuple[int, bytes, Any] | None:
        first = self.first()
        if first is not None:
            entry = heappop(self._heap)
            del self._items[entry]
            self._mark(entry)
        return first

    def all(self) -> list[tuple[int, bytes, Any]]:
        return [(*entry, self._items[entry]) for entry in sorted(self._items)]

    def changed_columns(self) -> Changes:
        entries = list(self._dirty)
        self._dirty.clear()
        values = self._codec.values_out(list(map(self._items.get, entries)))
        return Changes([buffer_key(*entry) for entry in entries], values, [entry[0] for entry in entries])

    def _apply(self, record: ChangelogRecord) -> None:
        entry = split_buffer_key(record.key)
        if record.value is None:
            self._remove(entry)
        else:
            self.put(*entry, self._codec.value_in(record.value))
