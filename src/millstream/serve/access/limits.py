"""Limits of requests: for each sender, and for failed attempts of each address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST = 10_000


class Rates:
    """Counts requests by sender, and failed attempts by address. All of it runs in the event loop.

    >>> now = 0.0
    >>> rates = Rates(per_second=2, clock=lambda: now)
    >>> [rates.admits("anna") for _ in range(5)]
    [True, True, True, True, False]
    >>> now = 1.0
    >>> rates.admits("anna")
    True

    Args:
        per_second: Requests of a sender in a second, on average. In a burst it may send twice as many.
        failures: Failed attempts of an address in a second, likewise.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, per_second: float = 2000, failures: float = 10, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._senders = _Buckets(per_second, clock)
        self._failures = _Buckets(failures, clock)

    def admits(self, sender: str) -> bool:
        """Whether a request is within the limit; it counts."""
        return self._senders.take(sender)

    def failed(self, address: str) -> bool:
        """Counts a failed attempt of an address; returns whether there were not too many."""
        return self._failures.take(address)


class _Buckets:
    """Token buckets by name."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> bool:
        left = self._left(name)
        if left < 1.0:
            return False
        self._buckets[name] = (left - 1.0, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return True

    def _left(self, name: str) -> float:
        most = 2 * self._rate
        left, at = self._buckets.get(name, (most, 0.0))
        return min(most, left + (self._clock() - at) * self._rate)
