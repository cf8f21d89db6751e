"""Admission control: limits the records of a batch, so that it takes about the target time."""

from __future__ import annotations

import math

_BACKLOG = 0.1
_LONGEST = 4.0
"""With a backlog, a batch may take this share of the time to work it off, up to this multiple of its usual time: those
records are already delayed, so a longer batch adds no latency, and fewer batches have less overhead."""

_SHARE = 3.0
"""A full batch takes at least this multiple of the time of an empty one, so that overhead is not most of it."""


class Pacing:
    """Learns from each batch how many records the next one may have.

    Args:
        target_ms: Target duration of a batch.
        least: Limit that is never lowered further, whatever a batch takes.
        most: Greatest limit.
        most_bytes: Greatest total size of the records.
        each: Estimated size of a record.

    A batch has a fixed cost, which is higher while the JVM is new. Only the rest depends on its records: half the
    records halve that part alone.

    >>> pacing = Pacing(target_ms=500, least=1000, most=100_000)
    >>> pacing.records
    10000
    >>> pacing.learn(records=10_000, seconds=1.2, work=1.0)  # 0.4 s may go to records, and 1.0 s did
    >>> pacing.records
    5000
    >>> pacing.learn(records=200, seconds=0.3, work=0.1)
    >>> pacing.records
    5000
    """

    def __init__(self, target_ms: int, least: int, most: int, most_bytes: float = math.inf, each: float = 0.0) -> None:
        self._target = target_ms / 1000
        self._least = min(least, most)
        self._most = most
        self._most_bytes = most_bytes
        self._fixed = math.inf
        self._before = (0, 0.0)
        self._wanted = min(max(10_000, self._least), most)
        self._each = each

    @property
    def records(self) -> int:
        """Limit for the next batch. The limit in bytes may bring it below *least*."""
        return max(1, int(min(self._wanted, self._most_bytes / max(self._each, 1.0))))

    def learn(self, records: int, seconds: float, work: float, size: int = 0, unread: int = 0) -> None:
        """Learns from a batch.

        Args:
            records: Number of its records.
            seconds: Its duration.
            work: Measured part of the duration that depends on records.
            size: Size of the records in bytes.
            unread: Number of records that are left to read.

        The measurement misses part of the work, so the remaining time is an upper bound of the fixed cost. A higher
        fixed cost shows in a small batch, or in one with fewer records than before that is not as much shorter.
        """
        if records:
            self._each = max(size / records, (self._each + size / records) / 2)  # up at once, down gradually
        rest = max(0.0, seconds - work)
        is_small = records < self.records * 0.5
        if rest <= self._fixed:
            self._fixed = rest
        elif is_small:
            self._fixed = (self._fixed + rest) / 2
        elif records < self._before[0] * 0.75:
            per_record = max(0.0, (self._before[1] - seconds) / (self._before[0] - records))
            self._fixed = max(self._fixed, min(rest, seconds - per_record * records))
        self._before = self._before if is_small else (records, seconds)
        usual = max(self._target, _SHARE * self._fixed)
        backlog = unread / records * seconds if records else 0.0
        goal = min(max(usual, _BACKLOG * backlog), _LONGEST * usual)
        if is_small and seconds <= goal:
            return
        factor = min(4.0, max(0.5, (goal - self._fixed) / max(seconds - self._fixed, 0.001)))
        if 0.9 < factor < 1.1:
            return
        self._wanted = int(min(self._most, max(self._least, self._wanted * factor)))
