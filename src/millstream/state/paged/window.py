"""The paged window store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.memory.window import MemoryWindowStore
from millstream.state.paged.format import Numbers, PageRow
from millstream.state.paged.rows import encoded, merged, present_rows, times_in
from millstream.state.paged.store import EitherOf, MarkedChanges, MemoryCost, PageContent, PagedStore, joined

_SAMPLE = 256


class PagedWindowStore(PagedStore, MemoryWindowStore):
    """Marks are keys. Members are lists of keys by start."""

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=145, byte=1.6, member=340)

    @property
    def floor(self) -> int:
        return self._floor

    def _drain(self) -> MarkedChanges:
        return joined(
            [
                MarkedChanges(keys, np.zeros(len(names), np.int64) + np.array(starts, np.int64), names, changes)
                for starts, keys, names, changes in self._drained()
            ]
        )

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

    def collect(self, members: dict[int, list[Any]], _low: int, _high: int, /) -> PageContent:
        codec = self._codec
        present: dict[int, list[Any]] = {}
        collected: list[PageRow] = []
        for start, keys in members.items():
            held = self._rows.get(start)
            if held is None or start <= self._floor:
                continue
            own, rows = present_rows(held, keys)
            suffix = store_window_key(b"", start)
            collected += encoded(codec, [name + suffix for name in codec.keys_out(own)], rows)
            present[start] = own
        return PageContent(present, [key for keys in present.values() for key in keys], collected)

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, _sequence: int, /) -> dict[int, list[Any]]:
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
            key in own for start, keys in members.items() if (own := changed.get(start)) for key in keys
        )

    def has_changes(self) -> bool:
        return bool(self._dirty or self._counted)

    def since_size(self) -> int:
        since = self._since or {}
        sample = [len(keys) for keys in islice(since.values(), _SAMPLE)]
        return sum(sample) * len(since) // max(len(sample), 1)

    def _remember(self, since: dict[Any, Any]) -> None:
        for start, counted in self._counted.items():
            since.setdefault(start, {}).update(dict.fromkeys(counted.keys))
        for start, rows in self._dirty.items():
            since.setdefault(start, {}).update(dict.fromkeys(rows))

    def _recall(self, since: dict[Any, Any]) -> None:
        for start, keys in since.items():
            held = self._rows.get(start, {})
            self._dirty[start] = dict(zip(keys, map(held.get, keys), strict=True))

    def _changed(self) -> Mapping[int, Container[Any]]:
        """The keys of rows that a page must not overwrite, by start."""
        self._merge_counted()
        if self._since:
            both = self._dirty.keys() | self._since.keys()
            return {start: EitherOf(self._dirty.get(start, ()), self._since.get(start, ())) for start in both}
        if not self._reported:
            return self._dirty
        changed: dict[int, set[Any]] = {start: set(rows) for start, rows in self._dirty.items()}
        for part in self._reported:
            for key, start in zip(part.marks, part.times.tolist(), strict=True):
                changed.setdefault(start, set()).add(key)
        return changed
