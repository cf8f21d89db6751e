"""The window store in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, NamedTuple

from millstream.serde.key_layouts import split_store_window_key, store_window_key
from millstream.state.codec import Codec
from millstream.state.loading import chunks
from millstream.state.memory.base import TimedStore
from millstream.state.memory.counting import Counts, count
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec, concatenated

_PROBED = 32
"""A fetch probes up to so many windows for its key; for more it builds the index."""

_MANY = 200
"""The changed rows of a window are encoded by themselves if there are so many."""


class Counted(NamedTuple):
    """Rows of a window that ``count_all`` changed, each once; ``names`` are the serialized keys, if known."""

    keys: Sequence[Any]
    names: Sequence[bytes] | None
    counts: list[int]
    times: list[int]


class Changed(NamedTuple):
    """Changed rows: their common start, or the start of each; their keys; the serialized keys; the changes."""

    starts: int | list[int]
    keys: Sequence[Any]
    names: Sequence[bytes]
    changes: Changes


class MemoryWindowStore(TimedStore):
    """Rows by start, then key: a dict of dicts, and the sorted list of the starts.

    Tumbling and hopping windows have few starts with many keys each: a row is one entry of a large dict, and expiry
    drops the dict. Sliding windows and processors have many starts: the first fetch over many of them builds an index
    of the starts of each key, kept up to date from then on. Changes are recorded in the same way, by start, then key.
    """

    __slots__ = ("_counted", "_dirty", "_index", "_recording", "_starts")

    _rows: dict[int, dict[Any, Any]]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._starts: list[int] = []
        self._index: dict[Any, list[int]] | None = None
        self._dirty: dict[int, dict[Any, Any]] = {}
        self._counted: dict[int, Counted] = {}
        self._recording = self._logged

    def _record_changes(self, on: bool) -> None:
        self._recording = on

    def get(self, key: Any, start: int, /) -> Any:
        if start <= self._horizon:
            return None
        rows = self._rows.get(start)
        if rows is not None:
            row = rows.get(key)
            if row is not None:
                return row
        if self.loader is None:
            return None
        self.loader.load_key(key, start, start)
        return self._rows.get(start, {}).get(key)

    def put(self, key: Any, start: int, row: Any, /) -> None:
        if start > self._time:
            self._set_time(start)
            if start <= self._floor:  # with a retention of 0 no row is ever visible, but the time advances
                if self._recording:
                    self._dirty.setdefault(start, {})[key] = None
                return
        elif start <= self._floor:
            return
        rows = self._rows.get(start)
        if row is None:
            self._delete(rows, key, start)
        else:
            if rows is None:
                rows = self._add_start(start)
            if self._index is not None and key not in rows:
                self._add_to_index(self._index, key, start)
            rows[key] = row
        if self._recording:
            if self._counted:
                self._merge_counted()
            dirty = self._dirty.get(start)
            if dirty is None:
                dirty = self._dirty[start] = {}
            dirty[key] = row

    def _merge_counted(self) -> None:
        """Adds the rows that ``count_all`` changed to the other changes."""
        counted, self._counted = self._counted, {}
        for start, (keys, _names, counts, times) in counted.items():
            rows = zip(keys, zip(counts, times, strict=True), strict=True)
            self._dirty.setdefault(start, {}).update(rows)

    def count_all(
        self, keys: Sequence[Any], start: int, times: Sequence[int], names: Sequence[bytes] | None = None
    ) -> tuple[list[int], list[int]]:
        """Adds one to the count of a key for each of its occurrences, in a window that has not expired.

        Args:
            keys: The keys.
            start: The start of the window.
            times: A time for each key.
            names: The serialized keys, if known.

        Returns:
            The count and the greatest time of the key, after each occurrence.
        """
        if start > self._time:
            self._set_time(start)
        counts: list[int] = []
        latest: list[int] = []
        for chunk in chunks(len(keys), self.loader):
            counted = self._count(keys[chunk], start, times[chunk], None if names is None else names[chunk])
            counts += counted.counts
            latest += counted.times
        return counts, latest

    def _count(self, keys: Sequence[Any], start: int, times: Sequence[int], names: Sequence[bytes] | None) -> Counts:
        rows = self._rows_of(start)
        if self.loader is not None and any(key not in rows for key in keys):
            self.loader.load_keys(keys, start, start)  # all at once: loading one page may evict another
            rows = self._rows_of(start)  # eviction drops a window with its last row
        if self._index is not None:
            for key in dict.fromkeys(keys):
                if key not in rows:
                    self._add_to_index(self._index, key, start)
        counted = count(rows, keys, times)
        if self._recording:
            # Distinct rows that are the only changes of the window need no merge.
            apart = counted.distinct and not self._dirty and start not in self._counted
            if not apart:
                self._merge_counted()
            self._counted[start] = Counted(keys, names, counted.counts, counted.times)
            if not apart:
                self._merge_counted()
        return counted

    def _rows_of(self, start: int) -> dict[Any, Any]:
        rows = self._rows.get(start)
        return self._add_start(start) if rows is None else rows

    def _add_start(self, start: int) -> dict[Any, Any]:
        starts = self._starts
        if not starts or start > starts[-1]:
            starts.append(start)
        else:
            insort(starts, start)
        rows: dict[Any, Any] = {}
        self._rows[start] = rows
        return rows

    def _delete(self, rows: dict[Any, Any] | None, key: Any, start: int) -> None:
        if rows is None or rows.pop(key, None) is None:
            return
        if self._index is not None:
            starts = self._index[key]
            del starts[bisect_left(starts, start)]
            if not starts:
                del self._index[key]

    @staticmethod
    def _add_to_index(index: dict[Any, list[int]], key: Any, start: int) -> None:
        starts = index.get(key)
        if starts is None:
            index[key] = [start]
        elif start > starts[-1]:
            starts.append(start)
        else:
            insort(starts, start)

    def _expire(self, limit: int) -> None:
        end = bisect_right(self._starts, limit)
        gone = self._starts[:end]
        del self._starts[:end]
        index = self._index
        if index is None:
            for start in gone:
                del self._rows[start]
            return
        for key in set().union(*[self._rows.pop(start) for start in gone]):
            starts = index[key]
            if starts[-1] <= limit:
                del index[key]
            else:
                del starts[: bisect_right(starts, limit)]

    def fetch(self, key: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[int, Any]]:
        if from_ <= self._horizon:
            from_ = self._horizon + 1
        if self.loader is not None:
            self.loader.load_key(key, from_, to)
        rows = self._rows
        index = self._index
        if index is None:
            starts = self._starts
            starts = starts[bisect_left(starts, from_) : bisect_right(starts, to)]
            if len(starts) <= _PROBED:
                entries = [(start, rows[start][key]) for start in starts if key in rows[start]]
                if reverse:
                    entries.reverse()
                return entries
            index = self._make_index()
        starts = index.get(key, [])
        starts = starts[bisect_left(starts, from_) : bisect_right(starts, to)]
        if reverse:
            starts.reverse()
        return [(start, rows[start][key]) for start in starts]

    def _make_index(self) -> dict[Any, list[int]]:
        index: dict[Any, list[int]] = {}
        for start in self._starts:
            for key in self._rows[start]:
                self._add_to_index(index, key, start)
        self._index = index
        return index

    def fetch_all(self, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, from_, to, reverse)

    def all(self, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        return self.fetch_keys(None, None, self._horizon + 1, self._time, reverse)

    def fetch_keys(self, low: Any, high: Any, from_: int, to: int, reverse: bool = False) -> list[tuple[Any, int, Any]]:
        key_out, segment = self._codec.key_out, self._segment
        least = b"" if low is None else key_out(low)
        greatest = None if high is None else key_out(high)
        from_ = max(from_, self._horizon + 1)
        if self.loader is not None:
            self.loader.load_between(from_, to)
        names: dict[Any, bytes] = {}
        entries: list[tuple[int, bytes, int, Any, Any]] = []
        starts = self._starts
        for start in starts[bisect_left(starts, from_) : bisect_right(starts, to)]:
            for key, row in self._rows[start].items():
                name = names.get(key)
                if name is None:
                    name = names[key] = key_out(key)
                if least <= name and (greatest is None or name <= greatest):
                    entries.append((start // segment, name, start, key, row))
        # Segment, key and start are unique together: the sort never compares keys or rows.
        entries.sort(reverse=reverse)
        return [(key, start, row) for _, _, start, key, row in entries]

    def rows_between(self, low: int, high: int, /) -> list[tuple[Any, int, Any]]:
        low = max(low, self._floor)
        if self.loader is not None:
            self.loader.load_between(low + 1, high)
        starts, key_out = self._starts, self._codec.key_out
        entries: list[tuple[Any, int, Any]] = []
        for start in starts[bisect_right(starts, low) : bisect_right(starts, high)]:
            rows = self._rows[start]
            entries.extend([(key, start, rows[key]) for key in sorted(rows, key=key_out)])
        return entries

    def changed_columns(self) -> Changes:
        return concatenated([changed.changes for changed in self._drained()])

    def _drained(self) -> Iterator[Changed]:
        """Yields the changes since the last call, by start."""
        codec = self._codec
        counted, self._counted = self._counted, {}
        for start, (keys, serialized, counts, times) in counted.items():
            names, suffix = serialized or codec.keys_out(keys), store_window_key(b"", start)
            yield Changed(start, keys, names, Changes([n + suffix for n in names], codec.values_out(counts), times))
        dirty, self._dirty = self._dirty, {}
        few: dict[int, dict[Any, Any]] = {}
        for start, rows in dirty.items():
            if len(rows) < _MANY:
                few[start] = rows
                continue
            if few:
                yield self._together(few)
                few = {}
            names, suffix = codec.keys_out(rows), store_window_key(b"", start)
            yield Changed(start, list(rows), names, codec.changes([n + suffix for n in names], rows.values(), start))
        if few:
            yield self._together(few)

    def _together(self, dirty: dict[int, dict[Any, Any]]) -> Changed:
        """Returns the changes of many windows with few changed rows each, encoded together.

        Sliding windows have them, and processors whose windows start at any time; a call per window would cost more.
        """
        keys: list[Any] = []
        starts: list[int] = []
        rows: list[Any] = []
        suffixes: list[bytes] = []
        for start, changed in dirty.items():
            keys += changed
            rows += changed.values()
            starts += [start] * len(changed)
            suffixes += [store_window_key(b"", start)] * len(changed)
        names = self._codec.keys_out(keys)
        written = list(map(add, names, suffixes))
        return Changed(starts, keys, names, self._codec.changes(written, rows, starts))

    def _apply(self, record: ChangelogRecord) -> None:
        name, start, _ = split_store_window_key(record.key)
        self.put(self._codec.key_in(name), start, self._codec.row(record))
