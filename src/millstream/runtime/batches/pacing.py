"""Admission control: how many records a batch may have, so that it takes about the target time."""

from __future__ import annotations

import math

_BACKLOG = 0.1
_LONGEST = 4.0
"""A batch may take this part of the time that it will take to work off a backlog, up to so many times its usual time:
who waits anyway does not wait longer, and fewer batches do more."""

_SHARE = 3.0
"""A full batch takes at least so many times as long as one that has nothing to do: else that would be most of it."""


class Pacing:
    """Learns from each batch how many records the next one may have.

    Args:
        target_ms: How long a batch should take.
        least: How many records it may have whatever that takes.
        most: How many it may have at most.
        most_bytes: How many bytes they may have together.
        each: How many bytes one has, as far as known.

    A batch takes a while whatever it has to do, and more while Java is new. What it takes for its records is the rest:
    to halve the records halves that, and no more.

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
        """How many records the next batch may have. However few there should be: their bytes decide."""
        return max(1, int(min(self._wanted, self._most_bytes / max(self._each, 1.0))))

    def learn(self, records: int, seconds: float, work: float, size: int = 0, unread: int = 0) -> None:
        """Takes note of a batch.

        Args:
            records: How many it had.
            seconds: How long it took.
            work: How much of that went to records.
            size: How many bytes they had.
            unread: How many are left to be read.

        What is measured of the work is not all of it, so the rest is an upper bound of what a batch takes whatever it
        has to do. It may have become more: a small batch tells how much, or one that has fewer records than the one
        before and is not as much shorter.
        """
        if records:
            self._each = max(size / records, (self._each + size / records) / 2)  # up at once, down by and by
        rest = max(0.0, seconds - work)
        is_small = records < self.records * 0.5
        if rest <= self._fixed:
            self._fixed = rest
        elif is_small:
            self._fixed = (self._fixed + rest) / 2
        elif records < self._before[0] * 0.75:
            each = max(0.0, (self._before[1] - seconds) / (self._before[0] - records))
            self._fixed = max(self._fixed, min(rest, seconds - each * records))
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
