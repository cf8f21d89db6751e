"""The paged versioned store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from millstream.state.memory.base import NEVER
from millstream.state.memory.versioned import MemoryVersionedStore
from millstream.state.paged.format import PageRow
from millstream.state.paged.store import MemoryCost, PageContent, PagedStore


class PagedVersionedStore(PagedStore, MemoryVersionedStore):
    """Marks and members are the keys. A row of a page has all versions of a key; all of them are in memory, or none.

    The log contains each version that was put. The effect of a put depends on the versions that exist, so a page
    records the sequence number of its last change, and only later changes are applied to it.
    """

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=180, byte=1.5)
    absolute: ClassVar[bool] = False

    def _marks(self) -> Iterable[Any]:
        return (change[0] for change in self._log)

    def collect(self, members: list[Any], _low: int, _high: int, /) -> PageContent:
        key_out, value_out, ended = self._codec.key_out, self._codec.value_out, self._ended
        marks: list[Any] = []
        rows: list[PageRow] = []
        for key in dict.fromkeys(members):
            versions = self._rows.get(key)
            if versions is not None:
                marks.append(key)
                kept = [(timestamp, None if value is None else value_out(value)) for timestamp, value in versions]
                rows.append((key_out(key), key in ended, kept))
        return PageContent(marks, marks, rows)

    def count(self, rows: list[PageRow], /) -> int:
        return sum(len(versions) for _, _, versions in rows)

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, sequence: int, /) -> list[Any]:
        key_in, value_in, held = self._codec.key_in, self._codec.value_in, self._rows
        later = [(key_in(r[0]), r[1], r[2]) for (number, _), r in (overlay or {}).items() if number > sequence]
        later = [change for change in later if change[0] not in held]
        members: list[Any] = []
        for data, ended, versions in rows:
            key = key_in(data)
            if key in held:
                continue
            held[key] = kept = [(time, None if value is None else value_in(value)) for time, value in versions]
            if ended:
                self._ended.add(key)
            for timestamp, value in kept:
                if value is None or timestamp != kept[0][0]:
                    self._index.add(timestamp, key)
            members.append(key)
        self._replay(later)
        members += [key for key, _, _ in later]
        return members

    def _replay(self, changes: list[tuple[Any, bytes | None, int]]) -> None:
        """Repeats puts of the log, also of versions that are older than the horizon by now."""
        value_in = self._codec.value_in
        loader, horizon = self.loader, self._horizon
        self.loader, self._horizon = None, -NEVER
        self._record_changes(False)
        try:
            for key, value, timestamp in changes:
                self.put(key, None if value is None else value_in(value), timestamp)
        finally:
            self.loader, self._horizon = loader, horizon
            self._record_changes(True)

    def evict(self, members: list[Any], _low: int, _high: int, /) -> None:
        for key in members:
            self._rows.pop(key, None)
            self._ended.discard(key)
        self._index.forget(-NEVER, NEVER, members)

    def is_changed(self) -> Callable[[Any], bool]:
        changed = set(self._all_marks())
        return lambda members: not changed.isdisjoint(members)
