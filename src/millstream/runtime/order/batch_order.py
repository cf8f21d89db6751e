"""The order of a batch: how far the tasks of each sub-topology go. The planner records it with the end of the batch."""

from __future__ import annotations

import msgspec

from millstream.runtime.order.positions import Position


class BatchOrder(msgspec.Struct, frozen=True, array_like=True):
    """How far the tasks of each sub-topology go in a batch.

    Attributes:
        sequence: The number of the batch since the start positions.
        limits: (sub-topology, position): its tasks take the records below the position. A sub-topology without an
            entry has no limit.
        pending: (sub-topology, position): the least position that its tasks may process in this batch or later. A
            sub-topology without an entry has nothing to process.
        released: (sub-topology, batches): its tasks take the records of the last of these batches, and of earlier
            ones, whatever its limit is. The others are released next: one number for each exchange before it.
    """

    sequence: int = 0
    limits: list[tuple[int, Position]] = []
    pending: list[tuple[int, Position]] = []
    released: list[tuple[int, list[int]]] = []

    def limit(self, subtopology: int) -> Position | None:
        """The limit of a sub-topology; None if it has none."""
        return next((limit for index, limit in self.limits if index == subtopology), None)

    def least(self, subtopology: int) -> Position | None:
        """The least position that a sub-topology may process in this batch or later."""
        return next((least for index, least in self.pending if index == subtopology), None)

    def releases(self, subtopology: int) -> list[int]:
        """The batches whose records a sub-topology takes in any case, now or later; see `released`."""
        return next((batches for index, batches in self.released if index == subtopology), [])

    def released_to(self, subtopology: int) -> int:
        """The last batch whose records a sub-topology takes in any case; -1 if there is none."""
        return next(reversed(self.releases(subtopology)), -1)

    def is_caught_up(self, subtopology: int) -> bool:
        """Whether a sub-topology has got all records that were in the log as many batches ago as it has exchanges."""
        return self.released_to(subtopology) >= self.sequence - max(0, len(self.releases(subtopology)) - 1)


NO_ORDER = BatchOrder()
"""The order of a batch without limits."""
