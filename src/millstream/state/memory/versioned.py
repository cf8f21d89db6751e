"""The versioned store in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from millstream.state.api import LATEST, NOT_PUT
from millstream.state.codec import Codec, discard
from millstream.state.loading import RowLoader
from millstream.state.memory.base import TimedStore
from millstream.state.ordered import TimeIndex
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec


class MemoryVersionedStore(TimedStore):
    """Per key a list of (timestamp, value) by timestamp, tombstones (value None) among them.

    The horizon is the earliest time that can be looked up. A version is dropped when its successor is not later than
    the horizon; a tombstone that is the latest version, when it is not later itself. The index finds the keys to trim.
    """

    __slots__ = ("_ended", "_index", "_log", "_mark")

    _rows: dict[Any, list[tuple[int, Any]]]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._ended: set[Any] = set()
        self._index = TimeIndex(self._width)
        self._log: list[tuple[Any, Any, int]] = []
        self._mark: Callable[[Any], Any]
        self._record_changes(self._logged)

    def _record_changes(self, on: bool) -> None:
        self._mark = self._log.append if on else discard()

    def _expire(self, limit: int) -> None:
        for key in self._index.expire(limit):
            self._trim(key, limit)

    def _trim(self, key: Any, limit: int) -> None:
        versions = self._rows.get(key)
        if versions is None:
            return
        # The first version to keep is the one that is valid at the earliest time that can be looked up.
        keep = max(bisect_left(versions, (limit + 1,)) - 1, 0)
        if keep == len(versions) - 1 and versions[keep][1] is None and versions[keep][0] <= limit:
            del self._rows[key]
            self._ended.discard(key)
        else:
            del versions[:keep]

    def put(self, key: Any, value: Any, timestamp: int, /) -> int:
        if timestamp < self._horizon:
            return NOT_PUT
        self._mark((key, value, timestamp))
        if timestamp > self._time:
            self._set_time(timestamp)
        versions = self._rows.get(key)
        if versions is None and self.loader is not None:
            versions = self._load(self.loader, key)
        if versions is None:
            self._rows[key] = [(timestamp, value)]
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
        """Returns whether, after a put at this timestamp, a version ends where the latest one begins.

        Kafka Streams stores the end of each version, and a tombstone is only the end of the version before it. When a
        value follows a tombstone, the tombstone has no end until a put falls between the two.
        """
        latest, value = versions[-1]
        if value is None or key in self._ended:
            return True
        if len(versions) == 1:
            return timestamp < latest
        before, value = versions[-2]
        return value is not None or before <= timestamp < latest

    def _end_latest(self, versions: list[tuple[int, Any]], key: Any) -> None:
        """Replaces the latest version by a tombstone, which stays only as the end of the version before."""
        timestamp = versions[-1][0]
        if key in self._ended:
            versions[-1] = (timestamp, None)
            self._index.add(timestamp, key)
            self._ended.discard(key)
        elif len(versions) == 1:
            del self._rows[key]
        else:
            versions.pop()

    def delete(self, key: Any, timestamp: int, /) -> tuple[Any, int] | None:
        if timestamp < self._horizon:
            return None
        version = self.get_as_of(key, timestamp)
        self.put(key, None, timestamp)
        return version

    def get(self, key: Any, /) -> tuple[Any, int] | None:
        versions = self._rows.get(key)
        if versions is None and self.loader is not None:
            versions = self._load(self.loader, key)
        if versions is None:
            return None
        timestamp, value = versions[-1]
        return None if value is None else (value, timestamp)

    def get_as_of(self, key: Any, as_of: int, /) -> tuple[Any, int] | None:
        versions = self._rows.get(key)
        if versions is None and self.loader is not None:
            versions = self._load(self.loader, key)
        if versions is None:
            return None
        timestamp, value = versions[-1]
        if timestamp > as_of:
            place = bisect_left(versions, (as_of + 1,)) - 1
            if place < 0 or as_of < self._horizon:
                return None
            timestamp, value = versions[place]
        return None if value is None else (value, timestamp)

    def valid_to(self, key: Any, timestamp: int, /) -> int | None:
        versions = self._rows.get(key)
        if versions is None and self.loader is not None:
            versions = self._load(self.loader, key)
        if versions is None:
            return None
        place = bisect_left(versions, (timestamp + 1,))
        return versions[place][0] if place < len(versions) else None

    def _load(self, loader: RowLoader, key: Any) -> list[tuple[int, Any]] | None:
        loader.load_key(key, 0, 0)
        return self._rows.get(key)

    def changed_columns(self) -> Changes:
        codec, log = self._codec, self._log
        keys = codec.keys_out([change[0] for change in log])
        changes = Changes(keys, codec.values_out([change[1] for change in log]), [change[2] for change in log])
        log.clear()
        return changes

    def _apply(self, record: ChangelogRecord) -> None:
        key, value, timestamp = record
        self.put(self._codec.key_in(key), None if value is None else self._codec.value_in(value), timestamp)
