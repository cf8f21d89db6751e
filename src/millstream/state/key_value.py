"""The key-value store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from millstream.state.absent import AHEAD, Absent
from millstream.state.codec import Codec, discard
from millstream.state.ordered import SortedKeys, after_prefix
from millstream.state.spec import ChangelogRecord, StoreSpec


def putter(
    rows: dict[Any, Any], delete: Callable[[Any], None], mark: Callable[[Any], Any]
) -> Callable[[Any, Any], None]:
    """Returns a function that puts a row, or deletes it, and notes the key."""

    def put(key: Any, row: Any, /) -> None:
        if row is None:
            delete(key)
        else:
            rows[key] = row
        mark(key)

    return put


class MemoryKeyValueStore:
    """A dict of rows, and an order of its keys that is brought up to date only when it is read.

    ``get`` is the dict's own, ``put`` a closure: the quickest that Python has. New keys cost nothing until an ordered
    read: they are the last ones of the dict (a dict keeps its keys in order of insertion, and a deleted key leaves the
    order at once), so that the read finds them.
    """

    __slots__ = ("_codec", "_dirty", "_index", "_mark", "_rows", "absent", "get", "put", "spec")

    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        self.spec = spec
        self.absent: Absent | None = None
        self._codec = codec
        self._rows: dict[Any, Any] = {}
        self._index: SortedKeys | None = None
        self._dirty: dict[Any, None] = {}
        self.get = self._rows.get
        self._mark: Callable[[Any], Any] = self._dirty.setdefault if spec.logged else discard()
        self.put = putter(self._rows, self._delete, self._mark)

    def __len__(self) -> int:
        return len(self._rows) if self.absent is None else len(self._rows) + self.absent.rows

    def _delete(self, key: Any) -> None:
        if self._rows.pop(key, None) is not None and self._index is not None:
            self._index.discard(self._codec.key_out(key))

    def count_all(self, keys: Sequence[Any], times: Sequence[int]) -> tuple[list[int], list[int]]:
        """Adds one to the rows of keys, for each time that a key is there.

        Returns:
            The counts, and the greatest times, after each.
        """
        if self.absent is None or len(keys) <= AHEAD:
            made = self._count(keys, times)
        else:
            made = []
            for begin in range(0, len(keys), AHEAD):
                made += self._count(keys[begin : begin + AHEAD], times[begin : begin + AHEAD])
        return [count for count, _ in made], [time for _, time in made]

    def _count(self, keys: Sequence[Any], times: Sequence[int]) -> list[tuple[int, int]]:
        rows, get, mark = self._rows, self._rows.get, self._mark
        if self.absent is not None and any(key not in rows for key in keys):
            self.absent.load_keys(keys, 0, 0)  # all, so that none goes for another
        made: list[tuple[int, int]] = []
        for key, time in zip(keys, times, strict=True):
            row = get(key)
            if row is None:
                row = (1, time)
            else:
                count, before = row
                row = (count + 1, max(before, time))
            rows[key] = row
            mark(key)
            made.append(row)
        return made

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        if self.absent is not None:
            self.absent.load_between(0, 0)
        key_out = self._codec.key_out
        keys = self._ordered().between(
            None if low is None else key_out(low), None if high is None else key_out(high) + b"\0"
        )
        if reverse:
            keys.reverse()
        rows = self._rows
        return iter([(key, rows[key]) for key in keys])

    def prefix(self, prefix: bytes, /) -> Iterator[tuple[Any, Any]]:
        if self.absent is not None:
            self.absent.load_prefix(prefix)
        rows = self._rows
        return iter([(key, rows[key]) for key in self._ordered().between(prefix, after_prefix(prefix))])

    def _ordered(self) -> SortedKeys:
        rows, index, key_out = self._rows, self._index, self._codec.key_out
        if index is None:
            index = self._index = SortedKeys([(key_out(key), key) for key in rows])
        elif len(rows) != len(index):
            index.add_all([(key_out(key), key) for key in islice(reversed(rows), len(rows) - len(index))])
        return index

    def changes(self) -> list[ChangelogRecord]:
        keys = list(self._dirty)
        self._dirty.clear()
        return self._codec.records(self._codec.keys_out(keys), list(map(self._rows.get, keys)))

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        codec = self._codec
        for record in records:
            key, row = codec.key_in(record.key), codec.row(record)
            if row is None:
                self._delete(key)
            else:
                self._rows[key] = row
