"""The window store in memory that keeps duplicates: one side of a stream-stream join."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.codec import Codec, discard
from millstream.state.memory.sorted_rows import SortedRowsStore
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec

_SEQUENCE = 0x7FFFFFFF


class MemoryDuplicatesStore(SortedRowsStore):
    """Per key a sorted list of (start, sequence number, row). Rows are added and expire; none is replaced."""

    __slots__ = ("_log", "_mark", "_sequence")

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._log: list[tuple[Any, int, int, Any]] = []
        self._mark: Callable[[Any], Any]
        self._record_changes(self._logged)
        self._sequence = 0

    def _record_changes(self, on: bool) -> None:
        self._mark = self._log.append if on else discard()

    def get(self, key: Any, start: int, /) -> Any:
        rows = self.fetch(key, start, start)
        return rows[0][1] if rows else None

    def put(self, key: Any, start: int, row: Any, /) -> None:
        if row is not None:
            self._sequence = sequence = (self._sequence + 1) & _SEQUENCE
            self._add(key, start, sequence, row)

    def _add(self, key: Any, start: int, sequence: int, row: Any) -> None:
        if start > self._time:
            self._set_time(start)
        elif start <= self._horizon:
            return
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = [(start, sequence, row)]
        elif start > rows[-1][0]:
            rows.append((start, sequence, row))
        else:
            rows.insert(bisect_left(rows, (start, sequence)), (start, sequence, row))
        self._index.add(start, key)
        self._mark((key, start, sequence, row))

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        if from_ <= self._horizon:
            from_ = self._horizon + 1
        if self.loader is not None:
            self.loader.load_key(key, from_, to)
        rows = self._rows.get(key)
        if rows is None:
            return []
        if rows[-1][0] < from_:
            return []
        entries = [(start, row) for start, _, row in rows[bisect_left(rows, (from_,)) : bisect_left(rows, (to + 1,))]]
        if reverse:
            entries.reverse()
        return entries

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, from_, to, reverse)

    def all(self, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, self._horizon + 1, self._time, reverse)

    def fetch_keys(self, low: Any, high: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        entries = self._of_keys(low, high, from_, to)
        # Key, start and sequence number are unique together: the sort never compares keys or rows.
        entries.sort(reverse=reverse)
        return [(key, start, row) for _, _, start, _, key, row in entries]

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, Any]]:
        entries = self.fetch_all(low + 1, high)
        entries.sort(key=lambda entry: (entry[1], self._codec.key_out(entry[0])))
        return entries

    def changed_columns(self) -> Changes:
        codec, log = self._codec, self._log
        names = codec.keys_out([change[0] for change in log])
        starts = [change[1] for change in log]
        keys = list(map(store_window_key, names, starts, [change[2] for change in log]))
        changes = codec.changes(keys, [change[3] for change in log], starts)
        log.clear()
        return changes

    def _apply(self, record: ChangelogRecord) -> None:
        name, start, sequence = split_store_window_key(record.key)
        key, row = self._codec.key_in(name), self._codec.row(record)
        rows = self._rows.get(key, [])
        place = bisect_left(rows, (start, sequence))
        if place < len(rows) and rows[place][:2] == (start, sequence):
            del rows[place]
            if not rows:
                del self._rows[key]
        if row is None:
            self._mark((key, start, sequence, None))
        else:
            self._add(key, start, sequence, row)
        self._sequence = max(self._sequence, sequence)
