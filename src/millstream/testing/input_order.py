"""The order in which the test driver processes the records of a backlog: that of the runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from millstream.engine import InputRecord
from millstream.engine.record_times import RecordTime, record_time
from millstream.plan.topics import reader_of
from millstream.stages import Topology

OrderPosition: TypeAlias = tuple[int, str, int, int]
"""Running maximum of the times of the partition, topic, partition and offset."""


class InputOrder:
    """Buffers records of input topics, and returns them in the order of their positions.

    Args:
        topology: The topology that reads the topics.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._records: list[tuple[OrderPosition, InputRecord]] = []
        self._bounds: dict[tuple[str, int], OrderPosition] = {}
        self._times: dict[str, RecordTime | None] = {}

    def add(self, topic: str, partition: int, record: InputRecord) -> None:
        """Adds a record. Records of a partition come in the order of offsets."""
        before = self._bounds.get((topic, partition))
        time = max(self._time(topic, record), -1 if before is None else before[0])
        self._records.append(((time, topic, partition, record.offset), record))
        self._bounds[topic, partition] = (time, topic, partition, record.offset + 1)

    def take(self, unread: Collection[tuple[str, int]]) -> Iterator[tuple[str, int, InputRecord]]:
        """Yields records in order, as far as the partitions with unread records allow.

        Args:
            unread: The partitions with records that are not added yet.
        """
        bounds = [self._bounds.get(source) for source in unread]
        taken, self._records = sorted(self._records, key=lambda entry: entry[0]), []
        for position, record in taken:
            if all(bound is not None and position < bound for bound in bounds):
                yield position[1], position[2], record
            else:
                self._records.append((position, record))

    def _time(self, topic: str, record: InputRecord) -> int:
        if topic not in self._times:
            self._times[topic] = record_time(reader_of(self._topology.plan, topic))
        time_of = self._times[topic]
        return record.timestamp if time_of is None else time_of(*record[1:])
