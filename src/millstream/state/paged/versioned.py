"""The versioned store, by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from millstream.state.codec import Codec, discard
from millstream.state.memory.versioned import MemoryVersionedStore
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Collected, Cost, Pending, Taken, no_times
from millstream.state.spec import ChangelogRecord, StoreSpec

_EVER = 1 << 64


class PagedVersionedStore(Pending, MemoryVersionedStore):
    """Members are the keys. A row of a page has all versions of a key, which is complete in memory or not there at all.

    The log has each version that was put. Putting one is no absolute value, it depends on the versions that there are:
    a page has the number of its last change, and only later ones are put over it.
    """

    __slots__ = ("_given",)

    cost: ClassVar[Cost] = Cost(row=180, byte=1.5)
    floor: ClassVar[int] = -1
    replayed: ClassVar[bool] = True

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._given = []
        self._mark = self._log.append

    @property
    def clock(self) -> tuple[int, int]:
        return self._time, 0

    def resume(self, time: int, _counter: int, /) -> None:
        self._set_time(time)

    def drain(self) -> Taken:
        marks = [mark[0] for mark in self._log]
        return self.taken(marks, MemoryVersionedStore.changes(self))

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        log, mark = self._log, self._mark
        self._log = []
        self._mark = self._log.append
        try:
            for key, value, timestamp in records:
                self.put(self._codec.key_in(key), None if value is None else self._codec.value_in(value), timestamp)
            self.changes()
        finally:
            self._log, self._mark = log, mark

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return no_times(keys), keys

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(marks)

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += marks

    def collect(self, members: list[Any], _low: int, _high: int, /) -> Collected:
        key_out, value_out, ended = self._codec.key_out, self._codec.value_out, self._ended
        marks: list[Any] = []
        rows: list[Row] = []
        for key in dict.fromkeys(members):
            versions = self._versions.get(key)
            if versions is not None:
                marks.append(key)
                kept = [(timestamp, None if value is None else value_out(value)) for timestamp, value in versions]
                rows.append((key_out(key), key in ended, kept))
        return Collected(marks, marks, rows)

    def count(self, rows: list[Row], /) -> int:
        return sum(len(versions) for _, _, versions in rows)

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, sequence: int, /) -> list[Any]:
        key_in, value_in, held = self._codec.key_in, self._codec.value_in, self._versions
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
        """Puts versions that were put before, whatever the time is now."""
        value_in = self._codec.value_in
        absent, oldest, mark = self.absent, self._oldest, self._mark
        self.absent, self._oldest, self._mark = None, -_EVER, discard()
        try:
            for key, value, timestamp in changes:
                self.put(key, None if value is None else value_in(value), timestamp)
        finally:
            self.absent, self._oldest, self._mark = absent, oldest, mark

    def evict(self, members: list[Any], _low: int, _high: int, /) -> None:
        for key in members:
            self._versions.pop(key, None)
            self._ended.discard(key)
        self._index.forget(-_EVER, _EVER, members)

    def is_changed(self) -> Callable[[Any], bool]:
        changed = {mark[0] for mark in self._log}.union(self.given_marks())
        return lambda members: not changed.isdisjoint(members)
