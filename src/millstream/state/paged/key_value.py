"""The paged key-value store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import Any, ClassVar

from millstream.state.codec import Codec
from millstream.state.memory.key_value import MemoryKeyValueStore
from millstream.state.paged.format import Numbers, PageRow
from millstream.state.paged.rows import encoded, merged, no_times, present_rows
from millstream.state.paged.store import EitherOf, MarkedChanges, MemoryCost, PageContent, PagedStore
from millstream.state.spec import StoreSpec


def group_of(key: bytes) -> bytes:
    r"""Returns the prefix of a key that names its group.

    >>> group_of(b"\0\0\0\2abc")
    b'\x00\x00\x00\x02ab'
    """
    return key[: 4 + int.from_bytes(key[:4], "big")]


class LoadingRows(dict[Any, Any]):
    """Rows by key. The page of a key that is not in memory is loaded.

    On a hit the bound ``__getitem__`` costs as much as ``dict.get``.
    """

    __slots__ = ("_store",)

    def __init__(self, store: PagedKeyValueStore) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, key: Any) -> Any:
        loader = self._store.loader
        if loader is None:
            return None
        loader.load_key(key, 0, 0)
        return self.get(key)


class PagedKeyValueStore(PagedStore, MemoryKeyValueStore):
    """Marks and members are the keys."""

    __slots__ = ("_has_log", "_reported", "_since")

    cost: ClassVar[MemoryCost] = MemoryCost(row=165, byte=1.5)

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._rows = LoadingRows(self)
        self.get = self._rows.__getitem__
        self._record_changes(True)

    def _drain(self) -> MarkedChanges:
        marks, changes = self._drained()
        return MarkedChanges(marks, *self.places(changes.keys), changes)

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        return no_times(keys), [group_of(key) for key in keys] if self.spec.grouped else keys

    def collect(self, members: list[Any], _low: int, _high: int, /) -> PageContent:
        marks, rows = present_rows(self._rows, members)
        return PageContent(marks, marks, encoded(self._codec, self._codec.keys_out(marks), rows))

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, _sequence: int, /) -> list[Any]:
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
        if self._reported:
            changed = set(self._all_marks())
            return lambda members: not changed.isdisjoint(members)
        dirty, since = self._dirty.keys(), (self._since or {}).keys()
        return lambda members: not (dirty.isdisjoint(members) and since.isdisjoint(members))

    def _changed(self) -> Container[Any]:
        """The keys of rows that a page must not overwrite."""
        if self._reported:
            return set(self._all_marks())
        return EitherOf(self._dirty, self._since) if self._since else self._dirty

    def _remember(self, since: dict[Any, Any]) -> None:
        since.update(self._dirty)

    def _recall(self, since: dict[Any, Any]) -> None:
        self._dirty.update(since)

    def _marks(self) -> Collection[Any]:
        return self._dirty
