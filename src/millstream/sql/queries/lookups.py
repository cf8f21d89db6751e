"""How a pull query finds its rows: by key, by a range of keys, or by reading all of them."""

from __future__ import annotations

from typing import Any

from millstream.core.frozen import Value


class Bounds(Value):
    """A range of milliseconds, both ends included; None is open.

    >>> 5 in Bounds(5, 10), 11 in Bounds(5, 10), 11 in Bounds(5)
    (True, False, True)
    """

    low: int | None = None
    high: int | None = None

    def __contains__(self, time: int) -> bool:
        return (self.low is None or time >= self.low) and (self.high is None or time <= self.high)


ALL = Bounds()


class Lookup(Value):
    """One access to a table. The condition of the query filters the rows that it returns."""


class KeyLookup(Lookup):
    """Finds the row of a key, or its rows in windows that start and end within bounds."""

    key: tuple[Any, ...]
    start: Bounds = ALL
    end: Bounds = ALL


class KeyRange(Lookup):
    """Finds the rows whose single key is in a range, both ends included; None is open."""

    low: Any = None
    high: Any = None


class FullScan(Lookup):
    """Reads all rows."""
