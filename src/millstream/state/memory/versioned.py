"""The versioned store in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from millstream.state.absent import Absent
from millstream.state.api import LATEST, NOT_PUT
from millstream.state.codec import FOREVER, Codec, discard, expiry_width
from millstream.state.ordered import TimeIndex
from millstream.state.spec import ChangelogRecord, StoreSpec

_NEVER = 1 << 64


class MemoryVersionedStore:
    """Per key a list of (timestamp, value) by timestamp, tombstones (value None) among them.

    A version is dropped when the one after it is as old as the history; a tombstone also when it is that old itself
    and the latest. The index names the keys to look at when time has grown.
    """

    __slots__ = (
        "_codec", "_ended", "_expire_at", "_index", "_log", "_mark", "_oldest", "_retention", "_time", "_versions",
        "_width", "absent", "spec",
    )  # fmt: skip

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        retention = FOREVER if spec.retention_ms is None else spec.retention_ms
        self.spec = spec
        self.absent: Absent | None = None
        self._codec = codec
        self._versions: dict[Any, list[tuple[int, Any]]] = {}
        self._ended: set[Any] = set()
        self._log: list[tuple[Any, Any, int]] = []
        self._mark: Callable[[Any], Any] = self._log.append if spec.logged else discard()
        self._retention = retention
        self._width = expiry_width(retention)
        self._index = TimeIndex(self._width)
        self._expire_at = -_NEVER
        self._set_time(-1)

    def __len__(self) -> int:
        versions = sum(map(len, self._versions.values()))
        return versions if self.absent is None else versions + self.absent.rows

    @property
    def time(self) -> int:
        return self._time

    @time.setter
    def time(self, time: int) -> None:
        self._set_time(time)

    def _set_time(self, time: int) -> None:
        self._time = time
        self._oldest = oldest = time - self._retention
        if oldest >= self._expire_at:
            for key in self._index.expire(oldest):
                self._trim(key, oldest)
            self._expire_at = oldest + self._width

    def _trim(self, key: Any, oldest: int) -> None:
        versions = self._versions.get(key)
        if versions is None:
            return
        # The first version to keep is the last one that is not newer than the oldest time that can be asked for.
        keep = max(bisect_left(versions, (oldest + 1,)) - 1, 0)
        if keep == len(versions) - 1 and versions[keep][1] is None and versions[keep][0] <= oldest:
            del self._versions[key]
            self._ended.discard(key)
        else:
            del versions[:keep]

    def put(self, key: Any, value: Any, timestamp: int, /) -> int:
        if timestamp < self._oldest:
            return NOT_PUT
        self._mark((key, value, timestamp))
        if timestamp > self._time:
            self._set_time(timestamp)
        versions = self._versions.get(key)
        if versions is None and self.absent is not None:
            versions = self._load(self.absent, key)
        if versions is None:
            self._versions[key] = [(timestamp, value)]
            if value is None:
                self._index.add(timestamp, key)
            return LATEST
        latest = versions[-1][0]
        if timestamp > latest:
            versions.append((timestamp, value))
            self._ended.discard(key)
            self._index.add(timestamp, key)
            return LATEST
        return self._put_among(versions, key, value, timestamp)

    def _put_among(self, versions: list[tuple[int, Any]], key: Any, value: Any, timestamp: int) -> int:
        place = bisect_left(versions, (timestamp,))
        if self._is_ended(versions, key, timestamp):
            self._ended.add(key)
        if versions[place][0] != timestamp:
            versions.insert(place, (timestamp, value))
        elif value is None and place + 1 == len(versions):
            self._end_latest(versions, key)
            return LATEST
        else:
            versions[place] = (timestamp, value)
        self._index.add(timestamp, key)
        if place + 1 == len(versions):
            return LATEST
        valid_to = versions[place + 1][0]
        self._index.add(valid_to, key)
        return valid_to

    def _is_ended(self, versions: list[tuple[int, Any]], key: Any, timestamp: int) -> bool:
        """Whether, with a put at this timestamp, a version before the latest one ends where the latest one begins.

        Kafka Streams notes the end of a version, and a tombstone is nothing but the end of the version before it. When
        a value follows a tombstone, the tombstone has no end, until a put comes between the two.
        """
        latest, value = versions[-1]
        if value is None or key in self._ended:
            return True
        if len(versions) == 1:
            return timestamp < latest
        before, value = versions[-2]
        return value is not None or before <= timestamp < latest

    def _end_latest(self, versions: list[tuple[int, Any]], key: Any) -> None:
        """Puts a tombstone in the place of the latest version: it stays only as the end of the version before."""
        timestamp = versions[-1][0]
        if key in self._ended:
            versions[-1] = (timestamp, None)
            self._index.add(timestamp, key)
            self._ended.discard(key)
        elif len(versions) == 1:
            del self._versions[key]
        else:
            versions.pop()

    def delete(self, key: Any, timestamp: int, /) -> tuple[Any, int] | None:
        if timestamp < self._oldest:
            return None
        found = self.get_as_of(key, timestamp)
        self.put(key, None, timestamp)
        return found

    def get(self, key: Any, /) -> tuple[Any, int] | None:
        versions = self._versions.get(key)
        if versions is None and self.absent is not None:
            versions = self._load(self.absent, key)
        if versions is None:
            return None
        timestamp, value = versions[-1]
        return None if value is None else (value, timestamp)

    def get_as_of(self, key: Any, as_of: int, /) -> tuple[Any, int] | None:
        versions = self._versions.get(key)
        if versions is None and self.absent is not None:
            versions = self._load(self.absent, key)
        if versions is None:
            return None
        timestamp, value = versions[-1]
        if timestamp > as_of:
            place = bisect_left(versions, (as_of + 1,)) - 1
            if place < 0 or as_of < self._oldest:
                return None
            timestamp, value = versions[place]
        return None if value is None else (value, timestamp)

    def valid_to(self, key: Any, timestamp: int, /) -> int | None:
        versions = self._versions.get(key)
        if versions is None and self.absent is not None:
            versions = self._load(self.absent, key)
        if versions is None:
            return None
        place = bisect_left(versions, (timestamp + 1,))
        return versions[place][0] if place < len(versions) else None

    def _load(self, absent: Absent, key: Any) -> list[tuple[int, Any]] | None:
        absent.load_key(key, 0, 0)
        return self._versions.get(key)

    def changes(self) -> list[ChangelogRecord]:
        codec = self._codec
        records = [
            ChangelogRecord(codec.key_out(key), None if value is None else codec.value_out(value), timestamp)
            for key, value, timestamp in self._log
        ]
        self._log.clear()
        return records

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        codec, mark = self._codec, self._mark
        self._mark = discard()
        try:
            for key, value, timestamp in records:
                self.put(codec.key_in(key), None if value is None else codec.value_in(value), timestamp)
        finally:
            self._mark = mark
