"""The key-value store, by page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

from millstream.state.codec import Codec
from millstream.state.memory.key_value import MemoryKeyValueStore, putter
from millstream.state.paged.format import Numbers, Row
from millstream.state.paged.rows import Collected, Cost, Pending, Taken, encoded, held_rows, merged, no_times
from millstream.state.spec import ChangelogRecord, StoreSpec


def group_of(key: bytes) -> bytes:
    r"""Returns the beginning of a key that names its group.

    >>> group_of(b"\0\0\0\2abc")
    b'\x00\x00\x00\x02ab'
    """
    return key[: 4 + int.from_bytes(key[:4], "big")]


class LoadingRows(dict[Any, Any]):
    """Rows by key; one that is not there is looked for among those that are not in memory.

    On a hit the bound ``__getitem__`` costs what ``dict.get`` does.
    """

    __slots__ = ("_store",)

    def __init__(self, store: PagedKeyValueStore) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, key: Any) -> Any:
        absent = self._store.absent
        if absent is None:
            return None
        absent.load_key(key, 0, 0)
        return self.get(key)


class PagedKeyValueStore(Pending, MemoryKeyValueStore):
    """Members are the keys."""

    __slots__ = ("_given",)

    cost: ClassVar[Cost] = Cost(row=165, byte=1.5)
    floor: ClassVar[int] = -1
    clock: ClassVar[tuple[int, int]] = (-1, 0)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._given = []
        self._rows = LoadingRows(self)
        self.get = self._rows.__getitem__
        self._mark = self._dirty.setdefault
        self.put = putter(self._rows, self._delete, self._mark)

    def resume(self, time: int, counter: int, /) -> None:
        pass  # it has no time

    def drain(self) -> Taken:
        marks, changes = self._drained()
        return Taken(marks, *self.places(changes.keys), changes)

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        records = list(records)
        super().restore(records)
        self._given.append(self.taken([self._codec.key_in(record.key) for record in records], records))

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return no_times(keys), [group_of(key) for key in keys] if self.spec.grouped else keys

    def members(self, marks: Sequence[Any], _times: Any, /) -> list[Any]:
        return list(marks)

    def extend(self, members: list[Any], marks: Sequence[Any], _times: Any, /) -> None:
        members += marks

    def collect(self, members: list[Any], _low: int, _high: int, /) -> Collected:
        marks, rows = held_rows(self._rows, members)
        return Collected(marks, marks, encoded(self._codec, self._codec.keys_out(marks), rows))

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
        key_in, row_in, held, changed = self._codec.key_in, self._codec.row_in, self._rows, self._changed()
        members: list[Any] = []
        for data, value, timestamp in merged(rows, overlay):
            key = key_in(data)
            if key not in changed:
                held[key] = row_in(value, timestamp)
                members.append(key)
        return members

    def evict(self, members: list[Any], _low: int, _high: int, /) -> None:
        rows, index, key_out = self._rows, self._index, self._codec.key_out
        if index is not None and len(members) * 8 > len(index):
            self._index = index = None
        for key in members:
            if rows.pop(key, None) is not None and index is not None:
                index.discard(key_out(key))

    def is_changed(self) -> Callable[[Any], bool]:
        changed = self._changed()
        return lambda members: any(key in changed for key in members)

    def _changed(self) -> Collection[Any]:
        return {*self._dirty, *self.given_marks()} if self._given else self._dirty
