"""Pages of records, with bounded bytes: the oldest first, by partition; or the newest first, merged by timestamp."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from fastapi import HTTPException

from millstream.log import Log

_PAGE_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_FIRST_WIDTH = 2
_GROWTH = 8

Bounds: TypeAlias = Mapping[int, tuple[int, int]]
"""By partition: the first offset, and the offset after the last."""

_Cursor = dict[int, Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]]


class Page(NamedTuple):
    """A page of records.

    Attributes:
        rows: Partition and record, in order.
        cursor: The cursor of the following page; None if there is none.
    """

    rows: list[tuple[int, dict[str, Any]]]
    cursor: str | None


def positions_of(cursor: str | None) -> dict[int, int]:
    """Reads a cursor: a position for each partition.

    Raises:
        HTTPException: It is not one.
    """
    if cursor is None:
        return {}
    try:
        return msgspec.json.decode(cursor, type=_Cursor)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise HTTPException(400, "the cursor is not one that this route has returned") from None


def oldest(log: Log, topic: str, bounds: Bounds, limit: int) -> Page:
    """Reads the first records of ranges, one partition after the other."""
    rows: list[tuple[int, dict[str, Any]]] = []
    positions = {number: low for number, (low, _high) in bounds.items()}
    size = 0
    for number, (_low, high) in bounds.items():
        while positions[number] < high and len(rows) < limit and size < _PAGE_BYTES:
            read = log.read(topic, number, positions[number], high, max_bytes=_READ_BYTES).to_pylist()
            taken = read[: limit - len(rows)]
            rows += [(number, row) for row in taken]
            size += sum(map(_size, taken))
            positions[number] = taken[-1]["offset"] + 1 if taken else high
    is_done = all(positions[number] >= high for number, (_low, high) in bounds.items())
    return Page(rows, None if is_done else json.dumps(positions))


def newest(log: Log, topic: str, bounds: Bounds, limit: int) -> Page:
    """Reads the last records of ranges: always that of the partition whose last unread record has the latest time."""
    rows: list[tuple[int, dict[str, Any]]] = []
    size = 0
    partitions = [_Backwards(log, topic, number, *range_) for number, range_ in bounds.items()]
    heads = [(partition.key(), partition) for partition in partitions if partition.last() is not None]
    heapq.heapify(heads)
    while heads and len(rows) < limit and size < _PAGE_BYTES:
        _key, partition = heapq.heappop(heads)
        row = partition.take()
        rows.append((partition.number, row))
        size += _size(row)
        if partition.last() is not None:
            heapq.heappush(heads, (partition.key(), partition))
    cursor = json.dumps({partition.number: partition.position for partition in partitions}) if heads else None
    return Page(rows, cursor)


class _Backwards:
    """Reads a partition from its end on, a few records at once."""

    def __init__(self, log: Log, topic: str, number: int, low: int, high: int) -> None:
        self.number = number
        self.position = high
        """The offset of the last record that was taken; all records before it were not."""
        self._log = log
        self._topic = topic
        self._low = low
        self._begin = high
        self._width = _FIRST_WIDTH
        self._rows: list[dict[str, Any]] = []

    def last(self) -> dict[str, Any] | None:
        """The last record that was not taken yet; None if there is none."""
        while not self._rows and self._begin > self._low:  # transactions and compaction leave offsets without a record
            begin = max(self._low, self._begin - self._width)
            self._rows = self._log.read(self._topic, self.number, begin, self._begin).to_pylist()
            self._begin = begin
            # The next records are taken to be as large as these, of which the first ones may be large.
            mean = sum(map(_size, self._rows)) // max(1, len(self._rows))
            self._width = max(1, min(self._width * _GROWTH, _READ_BYTES // max(1, mean)))
        return self._rows[-1] if self._rows else None

    def take(self) -> dict[str, Any]:
        row = self._rows.pop()
        self.position = row["offset"]
        return row

    def key(self) -> tuple[int, int]:
        """The order of the partition among others: that with the latest record first."""
        return -self._rows[-1]["timestamp"], self.number


def _size(row: Mapping[str, Any]) -> int:
    return sum(len(row[name] or b"") for name in ("key", "value", "headers"))
