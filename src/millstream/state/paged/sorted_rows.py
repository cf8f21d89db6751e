"""The paged stores that hold the rows of a key in a list ordered by time: session stores, windows with duplicates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, ClassVar

from millstream.serde.key_layouts import session_key, split_session_key, split_store_window_key, store_window_key
from millstream.state.memory.duplicates import MemoryDuplicatesStore
from millstream.state.memory.session import MemorySessionStore
from millstream.state.memory.sorted_rows import SortedRowsStore
from millstream.state.paged.format import Numbers, PageRow
from millstream.state.paged.rows import encoded, merged, times_in
from millstream.state.paged.store import EitherOf, MemoryCost, PageContent, PagedStore


class PagedSortedRowsStore(PagedStore, SortedRowsStore):
    """Marks are (key, time, rank). Members are the keys: a page has their rows in the time range of its segment."""

    __slots__ = ()

    suffix: ClassVar[int]
    """The bytes of a changelog key behind the key proper. They begin with the time."""

    @staticmethod
    def join_key(name: bytes, time: int, rank: int, /) -> bytes:
        """Returns a changelog key."""
        raise NotImplementedError

    @staticmethod
    def split_key(data: bytes, /) -> tuple[bytes, int, int]:
        """Returns key, time and rank of a changelog key."""
        raise NotImplementedError

    @property
    def floor(self) -> int:
        return self._floor

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return times_in(keys, self.suffix), [key[: -self.suffix] for key in keys]

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(dict.fromkeys([mark[0] for mark in marks]))

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += [mark[0] for mark in marks]

    def collect(self, members: list[Any], low: int, high: int, /) -> PageContent:
        key_out, join_key = self._codec.key_out, self.join_key
        low = max(low, self._floor + 1)
        marks: list[Any] = []
        keys: list[bytes] = []
        rows: list[Any] = []
        for key in dict.fromkeys(members):
            name = key_out(key)
            for time, rank, row in self._between(key, low, high):
                marks.append((key, time, rank))
                keys.append(join_key(name, time, rank))
                rows.append(row)
        return PageContent(self.members(marks, ()), marks, encoded(self._codec, keys, rows))

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        key_in, row_in, split_key, changed = self._codec.key_in, self._codec.row_in, self.split_key, self._changed()
        marks: list[Any] = []
        for data, value, timestamp in merged(rows, overlay):
            name, time, rank = split_key(data)
            mark = key_in(name), time, rank
            if time <= self._floor or mark in changed:
                continue
            held = self._rows.setdefault(mark[0], [])
            held.insert(bisect_left(held, mark[1:]), (time, rank, row_in(value, timestamp)))
            self._index.add(time, mark[0])
            marks.append(mark)
        return self.members(marks, ())

    def evict(self, members: list[Any], low: int, high: int, /) -> None:
        exact = self._held
        for key in members:
            rows = self._rows.get(key)
            if rows is None:
                continue
            gone = slice(bisect_left(rows, (low,)), bisect_left(rows, (high + 1,)))
            if exact:
                for time, _, _ in rows[gone]:
                    self._index.discard(time, key)
            del rows[gone]
            if not rows:
                del self._rows[key]
        if not exact:
            self._index.forget(low, high, members)

    def is_changed(self) -> Callable[[Any], bool]:
        changed = {mark[0] for mark in self._all_marks()}
        return lambda members: not changed.isdisjoint(members)

    def _changed(self) -> Container[Any]:
        """The marks of rows that a page must not overwrite."""
        raise NotImplementedError


class PagedSessionStore(PagedSortedRowsStore, MemorySessionStore):
    """The paged session store."""

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=350, byte=1.5)
    suffix: ClassVar[int] = 16

    @staticmethod
    def join_key(name: bytes, time: int, rank: int, /) -> bytes:
        return session_key(name, rank, time)

    @staticmethod
    def split_key(data: bytes, /) -> tuple[bytes, int, int]:
        name, start, end = split_session_key(data)
        return name, end, start

    def _marks(self) -> Iterable[Any]:
        return self._dirty

    def _remember(self, since: dict[Any, Any]) -> None:
        since.update(self._dirty)

    def _recall(self, since: dict[Any, Any]) -> None:
        self._dirty.update(since)

    def _changed(self) -> Container[Any]:
        if self._reported:
            return set(self._all_marks())
        return EitherOf(self._dirty, self._since) if self._since else self._dirty


class PagedDuplicatesStore(PagedSortedRowsStore, MemoryDuplicatesStore):
    """The paged window store with duplicates."""

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=165, byte=1.5)
    suffix: ClassVar[int] = 12
    join_key = staticmethod(store_window_key)
    split_key = staticmethod(split_store_window_key)

    @property
    def counter(self) -> int:
        return self._sequence

    def resume(self, time: int, counter: int, /) -> None:
        super().resume(time, counter)
        self._sequence = counter

    def _marks(self) -> Iterable[Any]:
        return (change[:3] for change in self._log)

    def _remember(self, since: dict[Any, Any]) -> None:
        since.update({change[:3]: change[3] for change in self._log})

    def _recall(self, since: dict[Any, Any]) -> None:
        self._log += [(*mark, row) for mark, row in since.items()]

    def _changed(self) -> Container[Any]:
        # A row that was put has a new sequence number. Only a restored row may be in a page.
        return set(self._all_marks()) if self._reported else self._since or ()
