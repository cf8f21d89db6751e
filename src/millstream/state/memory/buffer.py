"""The buffer in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from millstream.state.codec import Codec, buffer_key, discard, split_buffer_key
from millstream.state.spec import ChangelogRecord, StoreSpec


class MemoryBufferStore:
    """A dict of items and a heap of their keys; what was removed leaves the heap when it comes to the top.

    The heap is made anew when most of it is dead, so that it never grows much beyond the items.
    """

    __slots__ = ("_codec", "_dirty", "_heap", "_items", "_mark", "spec")

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        self.spec = spec
        self._codec = codec
        self._items: dict[tuple[int, bytes], Any] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._dirty: dict[tuple[int, bytes], None] = {}
        self._mark: Callable[[Any], Any] = self._dirty.setdefault if spec.logged else discard()

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
        found = self.first()
        if found is not None:
            entry = heappop(self._heap)
            del self._items[entry]
            self._mark(entry)
        return found

    def all(self) -> list[tuple[int, bytes, Any]]:
        return [(*entry, self._items[entry]) for entry in sorted(self._items)]

    def changes(self) -> list[ChangelogRecord]:
        out, items = self._codec.value_out, self._items
        records = [
            ChangelogRecord(buffer_key(*entry), out(items[entry]) if entry in items else None, entry[0])
            for entry in self._dirty
        ]
        self._dirty.clear()
        return records

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        value_in, mark = self._codec.value_in, self._mark
        self._mark = discard()
        try:
            for record in records:
                entry = split_buffer_key(record.key)
                if record.value is None:
                    self._remove(entry)
                else:
                    self.put(*entry, value_in(record.value))
        finally:
            self._mark = mark
