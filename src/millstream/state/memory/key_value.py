"""The key-value store in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from millstream.state.codec import Codec, discard
from millstream.state.loading import chunks
from millstream.state.memory.base import MemoryStore
from millstream.state.memory.counting import count
from millstream.state.ordered import SortedKeys, after_prefix
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec


def putter(
    rows: dict[Any, Any], delete: Callable[[Any], None], mark: Callable[[Any], Any]
) -> Callable[[Any, Any], None]:
    """Returns a function that puts or (None) deletes a row, and marks the key as changed."""

    def put(key: Any, row: Any, /) -> None:
        if row is None:
            delete(key)
        else:
            rows[key] = row
        mark(key)

    return put


class MemoryKeyValueStore(MemoryStore):
    """A dict of rows, and a sorted index of its keys that is updated only when it is read.

    ``get`` is the dict's own method and ``put`` a closure, which have the least overhead in Python. New keys cost
    nothing until an ordered read: they are the last ones of the dict (a dict keeps its keys in order of insertion, and
    a deleted key leaves the order at once), so that the read finds them.
    """

    __slots__ = ("_dirty", "_index", "_mark", "_rows", "get", "put")

    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._rows: dict[Any, Any] = {}
        self._index: SortedKeys | None = None
        self._dirty: dict[Any, None] = {}
        self._mark: Callable[[Any], Any]
        self.get = self._rows.get
        self._record_changes(self._logged)

    def _record_changes(self, on: bool) -> None:
        self._mark = self._dirty.setdefault if on else discard()
        self.put = putter(self._rows, self._delete, self._mark)

    def __len__(self) -> int:
        return len(self._rows) if self.loader is None else len(self._rows) + self.loader.rows

    def _delete(self, key: Any) -> None:
        if self._rows.pop(key, None) is not None and self._index is not None:
            self._index.discard(self._codec.key_out(key))

    def count_all(self, keys: Sequence[Any], times: Sequence[int]) -> tuple[list[int], list[int]]:
        """Adds one to the count of a key for each of its occurrences.

        Returns:
            The count and the greatest time of the key, after each occurrence.
        """
        counts: list[int] = []
        latest: list[int] = []
        rows = self._rows
        for chunk in chunks(len(keys), self.loader):
            batch = keys[chunk]
            if self.loader is not None and any(key not in rows for key in batch):
                self.loader.load_keys(batch, 0, 0)  # all at once: loading one page may evict another
            counted = count(rows, batch, times[chunk])
            deque(map(self._mark, batch), maxlen=0)
            counts += counted.counts
            latest += counted.times
        return counts, latest

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        if self.loader is not None:
            self.loader.load_between(0, 0)
        key_out = self._codec.key_out
        keys = self._ordered().between(
            None if low is None else key_out(low), None if high is None else key_out(high) + b"\0"
        )
        if reverse:
            keys.reverse()
        rows = self._rows
        return iter([(key, rows[key]) for key in keys])

    def prefix(self, prefix: bytes, /) -> Iterator[tuple[Any, Any]]:
        if self.loader is not None:
            self.loader.load_prefix(prefix)
        rows = self._rows
        return iter([(key, rows[key]) for key in self._ordered().between(prefix, after_prefix(prefix))])

    def _ordered(self) -> SortedKeys:
        rows, index, key_out = self._rows, self._index, self._codec.key_out
        if index is None:
            index = self._index = SortedKeys([(key_out(key), key) for key in rows])
        elif len(rows) != len(index):
            index.add_all([(key_out(key), key) for key in islice(reversed(rows), len(rows) - len(index))])
        return index

    def changed_columns(self) -> Changes:
        return self._drained()[1]

    def _drained(self) -> tuple[list[Any], Changes]:
        """Returns the keys that changed since the last call, and their changes."""
        keys = list(self._dirty)
        self._dirty.clear()
        return keys, self._codec.changes(self._codec.keys_out(keys), list(map(self._rows.get, keys)))

    def _apply(self, record: ChangelogRecord) -> None:
        self.put(self._codec.key_in(record.key), self._codec.row(record))
