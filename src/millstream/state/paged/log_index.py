"""The log segments in the remote map."""

from __future__ import annotations

from collections import deque

from millstream.state.paged.format import log_key

_OVERHEAD = 4096
"""The weight of a log segment beyond its bytes: many small ones are slow to read."""


class LogIndex:
    """The log segments that are still needed, by sequence number.

    Attributes:
        weight: The sum of their weights.
    """

    def __init__(self) -> None:
        self.weight = 0
        self._segments: deque[tuple[int, int, int]] = deque()

    @staticmethod
    def weight_of(pieces: list[tuple[bytes, bytes]]) -> int:
        """Returns the weight of a log segment."""
        return _OVERHEAD + sum(len(data) for _, data in pieces)

    def add(self, sequence: int, pieces: list[tuple[bytes, bytes]]) -> None:
        """Adds a log segment."""
        weight = self.weight_of(pieces)
        self._segments.append((sequence, len(pieces), weight))
        self.weight += weight

    def excess(self, limit: int) -> int:
        """Returns the sequence number up to which log segments must go for the rest to be within a limit."""
        weight, last = self.weight, 0
        for sequence, _, own in self._segments:
            if weight <= limit:
                break
            weight -= own
            last = sequence
        return last

    def drop_below(self, low: int) -> list[bytes]:
        """Removes the log segments below a sequence number, and returns their keys."""
        keys: list[bytes] = []
        segments = self._segments
        while segments and segments[0][0] < low:
            sequence, pieces, weight = segments.popleft()
            self.weight -= weight
            keys += [log_key(sequence, piece) for piece in range(pieces)]
        return keys
