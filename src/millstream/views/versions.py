"""Applies the puts of a versioned store to the versions in its view."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from sqlite3 import Connection
from typing import Any

from millstream.views.changes import RowChange
from millstream.views.checksums import row_checksum, verify, version_numbers
from millstream.views.counts import put_rows, statements

_READ = """SELECT timestamp, value, until, ended, checksum FROM view_versions
    WHERE store = ?1 AND partition = ?2 AND key = ?3 AND timestamp >= coalesce(
        (SELECT max(timestamp) FROM view_versions
            WHERE store = ?1 AND partition = ?2 AND key = ?3 AND timestamp < ?4), ?4)
    ORDER BY timestamp"""

_VERSIONS = statements(
    "view_versions", ("store", "partition", "key", "timestamp"), ("value", "until", "ended", "checksum")
)


def write_versions(connection: Connection, store: int, partition: int, records: Iterable[RowChange]) -> None:
    """Applies the puts of a task, in order, to the versions in the view."""
    puts: dict[bytes, list[tuple[int, bytes | None]]] = {}
    for key, value, timestamp in records:
        puts.setdefault(key, []).append((timestamp, value))
    written: list[Any] = []
    removed: list[Any] = []
    checksum_of = row_checksum(store, partition, 3)
    for key in sorted(puts):
        # Only versions from the earliest put on can change, depending on the one before it.
        earliest = min(put[0] for put in puts[key])
        rows = connection.execute(_READ, (store, partition, key, earliest)).fetchall()
        for timestamp, value, until, ended, stored in rows:
            numbers = version_numbers(timestamp, value, until, ended)
            verify("a row of the view of a versioned store", stored, checksum_of, key, value or b"", *numbers)
        versions = _Versions([row[:4] for row in rows])
        for timestamp, value in puts[key]:
            versions.put(timestamp, value)
        for timestamp, until, ended in versions.changed():
            value = versions.values[timestamp]
            stored = checksum_of(key, value or b"", *version_numbers(timestamp, value, until, ended))
            written.append((store, partition, key, timestamp, value, until, ended, stored))
        removed += [(store, partition, key, timestamp) for timestamp in versions.removed]
    # A version that was removed and put again is deleted first, then written.
    put_rows(connection, _VERSIONS, store, [], removed)
    put_rows(connection, _VERSIONS, store, written, [])


class _Versions:
    """The last versions of a key.

    ``until`` is the time until which a row can be looked up: the timestamp of the next version; of the latest version,
    None, or its own timestamp if it is a tombstone. ``ended`` of the latest row is the flag that the store in memory
    keeps for the key (``millstream.state.memory.versioned``): a version *ended* where the latest one begins. It is not
    set in other rows.
    """

    __slots__ = ("_ended", "_rows", "_timestamps", "_tombstones", "removed", "values", "written")

    def __init__(self, rows: list[tuple[int, bytes | None, int | None, int]]) -> None:
        self._rows = {timestamp: (until, bool(ended)) for timestamp, _, until, ended in rows}
        self._timestamps = [row[0] for row in rows]
        self._tombstones = [row[1] is None for row in rows]
        self.values: dict[int, bytes | None] = {row[0]: row[1] for row in rows}
        self._ended = bool(rows and rows[-1][3])
        self.written: set[int] = set()
        self.removed: set[int] = set()

    def put(self, timestamp: int, value: bytes | None) -> None:
        timestamps, tombstones = self._timestamps, self._tombstones
        tombstone = value is None
        if not timestamps or timestamp > timestamps[-1]:
            timestamps.append(timestamp)
            tombstones.append(tombstone)
            self._ended = False
        else:
            place = bisect_left(timestamps, timestamp)
            self._ended = self._is_ended(timestamp)
            if timestamps[place] != timestamp:
                timestamps.insert(place, timestamp)
                tombstones.insert(place, tombstone)
            elif tombstone and place + 1 == len(timestamps):
                if self._end_latest():
                    return
            else:
                tombstones[place] = tombstone
        self.written.add(timestamp)
        self.values[timestamp] = value

    def _is_ended(self, timestamp: int) -> bool:
        timestamps, tombstones = self._timestamps, self._tombstones
        if self._ended or tombstones[-1]:
            return True
        if len(timestamps) == 1:
            return timestamp < timestamps[-1]
        return not tombstones[-2] or timestamps[-2] <= timestamp < timestamps[-1]

    def _end_latest(self) -> bool:
        """Replaces the latest version by a tombstone; returns True if the version is removed instead."""
        if self._ended:
            self._tombstones[-1] = True
            self._ended = False
            return False
        timestamp = self._timestamps.pop()
        self._tombstones.pop()
        self.written.discard(timestamp)
        self.removed.add(timestamp)
        return True

    def changed(self) -> list[tuple[int, int | None, bool]]:
        """Returns the rows to write, as (timestamp, until, ended)."""
        timestamps = self._timestamps
        if not timestamps:
            return []
        rows: list[tuple[int, int | None, bool]] = [
            (timestamp, until, False) for timestamp, until in pairwise(timestamps)
        ]
        rows.append((timestamps[-1], timestamps[-1] if self._tombstones[-1] else None, self._ended))
        return [row for row in rows if row[0] in self.written or self._rows.get(row[0]) != row[1:]]
