"""The log segments that the remote map has."""

from __future__ import annotations

from collections import deque

from millstream.state.paged.format import log_key

_SEGMENT = 4096
"""What a segment weighs beyond its bytes: many small ones are slow to read back."""


class Log:
    """The log segments that are needed still, by sequence number.

    Attributes:
        weight: What they weigh together.
    """

    def __init__(self) -> None:
        self.weight = 0
        self._segments: deque[tuple[int, int, int]] = deque()

    @staticmethod
    def weight_of(pieces: list[tuple[bytes, bytes]]) -> int:
        """Returns what a segment weighs."""
        return _SEGMENT + sum(len(data) for _, data in pieces)

    def add(self, sequence: int, pieces: list[tuple[bytes, bytes]]) -> None:
        """Notes a segment."""
        weight = self.weight_of(pieces)
        self._segments.append((sequence, len(pieces), weight))
        self.weight += weight

    def must_go(self, limit: int) -> int:
        """Returns the sequence number up to which segments must go for the rest to weigh no more than a limit."""
        weight, last = self.weight, 0
        for sequence, _, own in self._segments:
            if weight <= limit:
                break
            weight -= own
            last = sequence
        return last

    def drop_below(self, low: int) -> list[bytes]:
        """Forgets the segments below a sequence number, and returns their keys."""
        keys: list[bytes] = []
        segments = self._segments
        while segments and segments[0][0] < low:
            sequence, pieces, weight = segments.popleft()
            self.weight -= weight
            keys += [log_key(sequence, piece) for piece in range(pieces)]
        return keys
