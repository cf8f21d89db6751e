"""The inputs of a task in real-time execution: buffered records, and how far they were read and taken."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from millstream.engine.queues import Columns
from millstream.engine.record_times import RecordTime
from millstream.runtime.order.positions import Position, ascending, position, positions
from millstream.runtime.real_time.buffers import Buffer, joined, reordered
from millstream.runtime.real_time.envelope import unwrap

InputKey = tuple[str, int]
"""An input of a task: topic and partition."""

UNREAD = -(1 << 63)
"""The time of an input of which nothing was read."""


class DirectInput:
    """A partition of an input topic."""

    __slots__ = ("buffer", "next", "number", "taken", "taken_time", "time", "time_of")

    def __init__(self, number: int, start: int, time: int, time_of_record: RecordTime | None) -> None:
        self.buffer = Buffer()
        self.number = number
        self.next = self.taken = start
        self.time = self.taken_time = time
        self.time_of = time_of_record

    @property
    def bound(self) -> Position:
        """The least order position that a record that was not read yet can have."""
        return position(self.time, self.number, self.next)

    def receive(self, columns: Columns, request: int) -> None:
        """Buffers records, with their order positions."""
        offsets, timestamps, keys, values, headers = columns
        times: Any
        if self.time_of is None:
            times = np.array(timestamps, np.int64)
        else:
            times = np.fromiter(map(self.time_of, timestamps, keys, values, headers), np.int64, len(timestamps))
        times = np.maximum.accumulate(times).clip(min=self.time)
        self.time = int(times[-1])
        self.buffer.add(columns, positions(times, self.number, np.array(offsets, np.int64)), request)


class InternalInput:
    """A partition of an internal topic. The records of each of its senders are in order."""

    __slots__ = ("next", "senders", "skipped", "taken")

    def __init__(self, start: int, taken: Mapping[int, int]) -> None:
        self.next = start
        self.senders: dict[int, Buffer] = {}
        self.taken = dict(taken)
        self.skipped = dict(taken)

    @property
    def first_untaken(self) -> int:
        """All records before this offset were taken."""
        firsts = (first for buffer in self.senders.values() if (first := buffer.first_offset) is not None)
        return min(firsts, default=self.next)

    def receive(self, columns: Columns, request: int) -> None:
        """Buffers records by sender."""
        values, origins, senders = unwrap(columns.values)
        columns = columns._replace(values=values)
        for sender in np.unique(senders).tolist():
            places = np.flatnonzero(senders == sender)
            own, own_origins = columns, origins
            if len(places) < len(origins):
                own, own_origins = reordered(columns, places.tolist()), origins[places]
            skipped = bisect_left(own.offsets, self.skipped.get(sender, 0))
            if skipped:
                places = np.arange(skipped, len(own_origins))
                own, own_origins = reordered(own, places.tolist()), own_origins[places]
            if len(own_origins):
                buffer = self.senders.setdefault(sender, Buffer())
                buffer.add(own, ascending(own_origins, buffer.tail), request)

    def offsets(self) -> Iterator[tuple[int, int]]:
        """(sender, offset) of the senders of which records behind the first untaken one were taken."""
        first = self.first_untaken
        return ((sender, offset) for sender, offset in sorted(self.taken.items()) if offset > first)


def merged_senders(parts: list[tuple[Columns, Any]]) -> tuple[Columns, Any]:
    """Returns the records of several senders of a partition as one input: by position, then by sender."""
    if len(parts) == 1:
        return parts[0]
    whole = np.concatenate([at for _columns, at in parts])
    places = np.argsort(whole, kind="stable")
    return reordered(joined([columns for columns, _at in parts]), places.tolist()), whole[places]
