"""The paged versioned store whose changelog can be compacted: one record for each version."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from millstream.serde.key_layouts import split_window_key, window_key
from millstream.state.memory.base import NEVER
from millstream.state.paged.store import MarkedChanges
from millstream.state.paged.versioned import PagedVersionedStore
from millstream.state.spec import ChangelogRecord, Changes

_VALUE, _NO_VALUE, _ENDED = 0, 1, 2


class PagedHistoryStore(PagedVersionedStore):
    """A versioned store whose changelog has the version in the key, so that compaction keeps the history.

    The changelog key is that of a windowed key: the key, and the timestamp of the version in 8 bytes. The value is a
    byte, and the bytes of the value. The byte has bit 0 if the version is a tombstone of the table (then no bytes
    follow), and bit 1 in the latest version of a key if a version ends where it begins (see `MemoryVersionedStore`). A
    record without a value deletes the version: it was replaced, or is older than the history.

    A record contains a version as it is, not a put, so that the result does not depend on the order of the puts that
    compaction has removed. The record of the latest version follows all changes of its key, because it decides bit 1.

    A version that leaves the history is deleted from the changelog when the store drops it: while its page is in
    memory. The versions of a page that is never loaded again stay in the changelog. They do no harm: a restored store
    drops them.
    """

    __slots__ = ()

    def changed_columns(self) -> Changes:
        if self._since is not None:
            self._remember(self._since)
        touched: dict[Any, dict[int, None]] = {}
        for key, _value, timestamp in self._log:
            touched.setdefault(key, {})[timestamp] = None
        self._log.clear()
        deleted: list[tuple[bytes, int]] = []
        present: list[tuple[bytes, int, int, Any]] = []
        for (key, times), name in zip(touched.items(), self._codec.keys_out(touched), strict=True):
            versions = self._rows.get(key, [])
            latest = versions[-1][0] if versions else None
            for timestamp in sorted(times):
                place = bisect_left(versions, (timestamp,))
                if place == len(versions) or versions[place][0] != timestamp:
                    deleted.append((name, timestamp))
                elif timestamp != latest:
                    present.append((name, timestamp, 0, versions[place][1]))
            if versions:
                present.append((name, *_latest(versions[-1], key in self._ended)))
        values = self._codec.values_out([version[3] for version in present])
        return Changes(
            [window_key(name, timestamp) for name, timestamp in deleted]
            + [window_key(version[0], version[1]) for version in present],
            [None] * len(deleted) + [_encode(v[2], value) for v, value in zip(present, values, strict=True)],
            [timestamp for _, timestamp in deleted] + [version[1] for version in present],
        )

    def resume(self, time: int, counter: int, /) -> None:
        # Versions leave the history with the next put, so that the changelog loses them as well.
        expire_at, self._expire_at = self._expire_at, NEVER
        super().resume(time, counter)
        self._expire_at = expire_at

    def take(self) -> MarkedChanges:
        # A page may have been evicted since a key was added to it. Its rows are written from memory, as a whole.
        keys = set(self._all_marks())
        if keys and self.loader is not None:
            self.loader.load_keys(keys, 0, 0)
        return super().take()

    def _trim(self, key: Any, limit: int) -> None:
        before = self._rows.get(key)
        if before is None:
            return
        before = before.copy()
        super()._trim(key, limit)
        dropped = len(before) - len(self._rows.get(key, ()))
        for timestamp, _value in before[:dropped]:
            self._mark((key, None, timestamp))

    def _apply(self, record: ChangelogRecord) -> None:
        name, timestamp = split_window_key(record.key)
        key = self._codec.key_in(name)
        if timestamp > self._time:
            self._set_time(timestamp)
        versions = self._rows.get(key)
        if versions is None and self.loader is not None:
            versions = self._load(self.loader, key)
        self._mark((key, None, timestamp))
        if record.value is None:
            self._drop(key, versions or [], timestamp)
            return
        if versions is None:
            versions = self._rows[key] = []
        flags = record.value[0]
        version = (timestamp, None if flags & _NO_VALUE else self._codec.value_in(record.value[1:]))
        place = bisect_left(versions, (timestamp,))
        if place < len(versions) and versions[place][0] == timestamp:
            versions[place] = version
        else:
            versions.insert(place, version)
        if place + 1 == len(versions):
            (self._ended.add if flags & _ENDED else self._ended.discard)(key)
        else:
            self._index.add(versions[place + 1][0], key)
        self._index.add(timestamp, key)

    def _drop(self, key: Any, versions: list[tuple[int, Any]], timestamp: int) -> None:
        place = bisect_left(versions, (timestamp,))
        if place == len(versions) or versions[place][0] != timestamp:
            return
        del versions[place]
        if not versions:
            del self._rows[key]
            self._ended.discard(key)

    def _remember(self, since: dict[Any, Any]) -> None:
        since.update(dict.fromkeys([change[0] for change in self._log]))

    def _recall(self, since: dict[Any, Any]) -> None:
        self._log += [(key, None, 0) for key in since]


def _latest(version: tuple[int, Any], ended: bool) -> tuple[int, int, Any]:
    return version[0], _ENDED if ended else 0, version[1]


def _encode(flags: int, value: bytes | None) -> bytes:
    return bytes([flags | _NO_VALUE]) if value is None else bytes([flags | _VALUE]) + value


def versions_put(records: Iterable[tuple[bytes, bytes | None, int]]) -> Iterator[tuple[bytes, bytes | None, int]]:
    """The versions that records of the changelog contain, as they are put: key, value, timestamp.

    A record that deletes a version is a put of null at its timestamp: nothing is before it.
    """
    for key, value, _timestamp in records:
        name, timestamp = split_window_key(key)
        yield name, None if value is None or value[0] & _NO_VALUE else value[1:], timestamp
