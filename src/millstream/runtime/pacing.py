"""Admission control: how many records a batch may have, so that it takes about the target time."""

from __future__ import annotations


class Pacing:
    """Learns from each batch how many records the next one may have.

    >>> pacing = Pacing(target_ms=500, least=1000, most=100_000)
    >>> pacing.records
    10000
    >>> pacing.learn(records=10_000, seconds=2.0)
    >>> pacing.records
    5000
    >>> pacing.learn(records=200, seconds=0.3)
    >>> pacing.records
    5000
    """

    def __init__(self, target_ms: int, least: int, most: int) -> None:
        self._target = target_ms / 1000
        self._least = min(least, most)
        self._most = most
        self.records = min(max(10_000, self._least), most)

    def learn(self, records: int, seconds: float) -> None:
        """Takes note of a batch. Only one that was full tells how many would be right."""
        if records < self.records * 0.5 and seconds <= self._target:
            return
        factor = min(4.0, max(0.5, self._target / max(seconds, 0.001)))
        if 0.9 < factor < 1.1:
            return
        self.records = int(min(self._most, max(self._least, self.records * factor)))
