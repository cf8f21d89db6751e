"""The session store, by page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

from millstream.serde.key_layouts import session_key, split_session_key
from millstream.state.codec import Codec
from millstream.state.memory.session import MemorySessionStore
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Collected, Cost, Pending, Taken, encoded, merged, times_in
from millstream.state.spec import ChangelogRecord, StoreSpec


class PagedSessionStore(Pending, MemorySessionStore):
    """Members are the keys; the rows of a page are those of its keys that end in the time of its segment."""

    __slots__ = ("_given",)

    cost: ClassVar[Cost] = Cost(row=350, byte=1.5)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._given = []
        self._mark = self._dirty.__setitem__

    @property
    def floor(self) -> int:
        return self._floor

    @property
    def clock(self) -> tuple[int, int]:
        return self._time, 0

    def resume(self, time: int, _counter: int, /) -> None:
        self._set_time(time)

    def drain(self) -> Taken:
        marks = list(self._dirty)
        return self.taken(marks, MemorySessionStore.changes(self))

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        places = [split_session_key(record.key) for record in records]
        marks = [(self._codec.key_in(name), start, end) for name, start, end in places]
        for mark in marks:
            self._dirty.pop(mark, None)
        self._given.append(self.taken(marks, records))

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return times_in(keys, 16), [key[:-16] for key in keys]

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(dict.fromkeys([mark[0] for mark in marks]))

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += [mark[0] for mark in marks]

    def collect(self, members: list[Any], low: int, high: int, /) -> Collected:
        key_out = self._codec.key_out
        low = max(low, self._floor + 1)
        marks: list[Any] = []
        names: list[bytes] = []
        found: list[Any] = []
        for key in dict.fromkeys(members):
            rows = self._rows.get(key, [])
            name = key_out(key)
            for end, start, row in rows[bisect_left(rows, (low,)) : bisect_left(rows, (high + 1,))]:
                marks.append((key,))
                names.append(session_key(name, start, end))
                found.append(row)
        return Collected(self.members(marks, ()), marks, encoded(self._codec, names, found))

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        key_in, row_in, changed = self._codec.key_in, self._codec.row_in, self._changed()
        marks: list[Any] = []
        for data, value, timestamp in merged(rows, overlay):
            name, start, end = split_session_key(data)
            key = key_in(name)
            if end <= self._floor or (key, start, end) in changed:
                continue
            held = self._rows.setdefault(key, [])
            held.insert(bisect_left(held, (end, start)), (end, start, row_in(value, timestamp)))
            self._index.add(end, key)
            marks.append((key,))
        return self.members(marks, ())

    def evict(self, members: list[Any], low: int, high: int, /) -> None:
        exact = self.spec.held
        for key in members:
            rows = self._rows.get(key)
            if rows is None:
                continue
            gone = slice(bisect_left(rows, (low,)), bisect_left(rows, (high + 1,)))
            if exact:
                for end, _, _ in rows[gone]:
                    self._index.discard(end, key)
            del rows[gone]
            if not rows:
                del self._rows[key]
        if not exact:
            self._index.forget(low, high, members)

    def is_changed(self) -> Callable[[Any], bool]:
        changed = {mark[0] for mark in self._changed()}
        return lambda members: not changed.isdisjoint(members)

    def _changed(self) -> Collection[Any]:
        return {*self._dirty, *self.given_marks()} if self._given else self._dirty
