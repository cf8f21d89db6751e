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
        released: For each number of exchanges behind the sources, a batch: a sub-topology at that depth takes the
            records of that batch, and of earlier ones, whatever its limit is.
    """

    sequence: int = 0
    limits: list[tuple[int, Position]] = []
    pending: list[tuple[int, Position]] = []
    released: list[int] = []

    def limit(self, subtopology: int) -> Position | None:
        """The limit of a sub-topology; None if it has none."""
        return next((limit for index, limit in self.limits if index == subtopology), None)

    def least(self, subtopology: int) -> Position | None:
        """The least position that a sub-topology may process in this batch or later."""
        return next((least for index, least in self.pending if index == subtopology), None)

    def released_at(self, depth: int) -> int:
        """The last batch whose records a sub-topology at a depth takes in any case; -1 if there is none."""
        return self.released[depth] if depth < len(self.released) else -1

    def is_caught_up(self, depth: int) -> bool:
        """Whether a sub-topology at a depth has got all records that were in the log some batches ago."""
        return self.released_at(depth) >= self.sequence - depth


NO_ORDER = BatchOrder()
"""The order of a batch without limits."""
