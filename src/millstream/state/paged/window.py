"""The window store, by page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.codec import Codec
from millstream.state.memory.window import MemoryWindowStore
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import (
    Collected,
    Cost,
    Pending,
    Taken,
    encoded,
    held_rows,
    joined,
    merged,
    times_in,
)
from millstream.state.spec import ChangelogRecord, StoreSpec


class PagedWindowStore(Pending, MemoryWindowStore):
    """Marks are keys, members lists of keys by start."""

    __slots__ = ("_given",)

    cost: ClassVar[Cost] = Cost(row=145, byte=1.6, member=340)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._given = []
        self._notes = True

    @property
    def floor(self) -> int:
        return self._floor

    @property
    def clock(self) -> tuple[int, int]:
        return self._time, 0

    def resume(self, time: int, _counter: int, /) -> None:
        self._set_time(time)

    def drain(self) -> Taken:
        return joined(
            [
                Taken(keys, np.zeros(len(names), np.int64) + np.array(starts, np.int64), names, changes)
                for starts, keys, names, changes in self._drained()
            ]
        )

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        marks: list[Any] = []
        self._note_counted()
        for record in records:
            name, start, _ = split_store_window_key(record.key)
            key = self._codec.key_in(name)
            self._dirty.get(start, {}).pop(key, None)
            marks.append(key)
        self._given.append(self.taken(marks, records))

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return times_in(keys, 12), [key[:-12] for key in keys]

    def members(self, marks: Sequence[Any], times: Sequence[int] | Numbers, /) -> dict[int, list[Any]]:
        members: dict[int, list[Any]] = {}
        self.extend(members, marks, times)
        return members

    def extend(self, members: dict[int, list[Any]], marks: Sequence[Any], times: Sequence[int] | Numbers, /) -> None:
        starts = np.asarray(times, np.int64)
        if len(starts) and (starts == starts[0]).all():  # nearly always
            members.setdefault(int(starts[0]), []).extend(marks)
            return
        for key, start in zip(marks, starts.tolist(), strict=True):
            members.setdefault(start, []).append(key)

    def collect(self, members: dict[int, list[Any]], _low: int, _high: int, /) -> Collected:
        codec = self._codec
        found: dict[int, list[Any]] = {}
        collected: list[Row] = []
        for start, keys in members.items():
            held = self._rows.get(start)
            if held is None or start <= self._floor:
                continue
            there, rows = held_rows(held, keys)
            suffix = store_window_key(b"", start)
            collected += encoded(codec, [name + suffix for name in codec.keys_out(there)], rows)
            found[start] = there
        return Collected(found, [key for keys in found.values() for key in keys], collected)

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> dict[int, list[Any]]:
        key_in, row_in, changed, index = self._codec.key_in, self._codec.row_in, self._changed(), self._index
        members: dict[int, list[Any]] = {}
        for data, value, timestamp in merged(rows, overlay):
            name, start, _ = split_store_window_key(data)
            if start <= self._floor:
                continue
            key = key_in(name)
            if key in changed.get(start, ()):
                continue
            held = self._rows.get(start)
            if held is None:
                held = self._add_start(start)
            held[key] = row_in(value, timestamp)
            if index is not None:
                self._add_to_index(index, key, start)
            members.setdefault(start, []).append(key)
        return members

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
        return lambda members: any(
            key in some for start, keys in members.items() if (some := changed.get(start)) for key in keys
        )

    def _changed(self) -> Mapping[int, Collection[Any]]:
        self._note_counted()
        if not self._given:
            return self._dirty
        changed = {start: set(rows) for start, rows in self._dirty.items()}
        for taken in self._given:
            for key, start in zip(taken.marks, taken.times.tolist(), strict=True):
                changed.setdefault(start, set()).add(key)
        return changed
