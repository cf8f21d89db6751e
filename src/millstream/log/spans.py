"""Sets of offsets, stored as ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Spans:
    """A set of offsets. Its size in memory is proportional to its number of gaps.

    Args:
        spans: The first offset of each range and the one after its last.

    >>> spans = Spans([(0, 3), (5, 6)])
    >>> spans.add(3, 5)
    >>> spans.remove(1)
    >>> list(spans), 1 in spans, 5 in spans
    ([(0, 1), (2, 6)], False, True)
    """

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in spans:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> None:
        """Adds the offsets from `start` to `stop`, without `stop`."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)  # adjacent ranges are merged
        after = bisect_right(self._starts, stop)
        if first < after:
            start, stop = min(start, self._starts[first]), max(stop, self._stops[after - 1])
        self._starts[first:after] = [start]
        self._stops[first:after] = [stop]

    def remove(self, offset: int) -> None:
        """Removes an offset."""
        place = self._place(offset)
        if place is None:
            return
        start, stop = self._starts[place], self._stops[place]
        remaining = [(low, high) for low, high in ((start, offset), (offset + 1, stop)) if low < high]
        self._starts[place : place + 1] = [low for low, _ in remaining]
        self._stops[place : place + 1] = [high for _, high in remaining]

    def gap(self, offset: int) -> int:
        """Returns the first offset, from the given one on, that is not in the set."""
        place = self._place(offset)
        return offset if place is None else self._stops[place]

    def _place(self, offset: int) -> int | None:
        place = bisect_right(self._stops, offset)
        return place if place < len(self._starts) and self._starts[place] <= offset else None

    def __contains__(self, offset: int) -> bool:
        return self._place(offset) is not None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)
