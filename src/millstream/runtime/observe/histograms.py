"""Histograms with fixed buckets, for durations of phases and latencies of records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of durations, in seconds."""

AGES = (*DURATIONS, 300.0, 3600.0, 86400.0)
"""The upper bounds of the ages of records, in seconds: a backlog may be days old."""


class Histogram:
    """Counts observations by bucket, from the start of the application on.

    >>> histogram = Histogram((0.1, 1.0))
    >>> histogram.add(0.25)
    >>> histogram.add(7, 2)
    >>> histogram.read()
    {'bounds': [0.1, 1.0], 'counts': [0, 1, 2], 'sum': 14.25}

    Args:
        bounds: The upper bounds of the buckets, in ascending order. A last bucket has everything above.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = DURATIONS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Adds an observation, or several of the same value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def read(self) -> dict[str, Any]:
        """Returns the bounds, the number of observations in each bucket, and the sum of all observations."""
        return {"bounds": list(self.bounds), "counts": list(self.counts), "sum": self.sum}
