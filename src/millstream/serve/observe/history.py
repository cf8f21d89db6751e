"""What applications did in the last hour: samples at equal distances, kept in memory."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

SERIES = (
    "rate_in",
    "rate_out",
    "lag",
    "latency_ms",
    "latency_p50_ms",
    "processing_ms",
    "commit_ms",
    "stream_lag_ms",
    "state_bytes",
    "state_rows",
    "memory_bytes",
    "dropped",
    "failed",
    "late",
    "dead_letters",
    "violations",
    "restarts",
    "failed_connectors",
    "slot_retained_bytes",
)
"""The series of an application besides those of its phases and operators."""

_MOST_COLUMNS = 1000


class History:
    """The samples of one application, by column. The oldest ones make room for new ones.

    It takes 8 bytes for each value: 6 kB for a series of an hour.

    >>> history = History(3)
    >>> for time in range(5):
    ...     history.add(time, {"lag": time * 10.0} | ({"node:sink": 1.0} if time > 2 else {}))
    >>> history.read()["times"], history.read()["series"]["lag"]
    ([2, 3, 4], [20.0, 30.0, 40.0])
    >>> history.read(since=4)["nodes"], history.read(since=2)["nodes"]
    ({'sink': [1.0]}, {'sink': [None, 1.0, 1.0]})

    Args:
        most: The number of samples.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: list[int] = []
        self._columns: dict[str, array[float]] = {name: array("d") for name in SERIES}

    def add(self, time: int, values: Mapping[str, float | None]) -> None:
        """Adds a sample.

        Args:
            time: Its time, in milliseconds.
            values: Its values by column: `SERIES`, and names after ``phase:``, ``node:`` and ``sent:``.
        """
        if self._times and time <= self._times[-1]:  # the clock was set back
            self._forget(len(self._times))
        self._times.append(time)
        for name in values:
            if name not in self._columns and len(self._columns) < _MOST_COLUMNS:
                self._columns[name] = array("d", [math.nan]) * (len(self._times) - 1)
        for name, column in self._columns.items():
            value = values.get(name)
            column.append(math.nan if value is None else value)
        if len(self._times) > self._most:
            self._forget(len(self._times) - self._most)

    def _forget(self, count: int) -> None:
        del self._times[:count]
        for name, column in list(self._columns.items()):
            del column[:count]
            if name not in SERIES and all(map(math.isnan, column)):
                del self._columns[name]

    def read(self, since: int = 0) -> dict[str, Any]:
        """Returns the samples from a time on, in milliseconds. Values that were not reported are None."""
        first = bisect_left(self._times, since)

        def part(prefix: str) -> dict[str, list[float | None]]:
            return {
                name.removeprefix(prefix): _plain(column[first:])
                for name, column in self._columns.items()
                if (name.startswith(prefix) if prefix else name in SERIES)
            }

        return {
            "times": self._times[first:],
            "series": part(""),
            "phases": part("phase:"),
            "nodes": part("node:"),
            "sent": part("sent:"),
        }

    @property
    def start(self) -> int:
        """The time of the first sample."""
        return self._times[0]

    @property
    def is_empty(self) -> bool:
        """Whether no sample has a value any more."""
        return all(map(math.isnan, chain.from_iterable(self._columns.values())))

    def first(self, name: str, since: int) -> tuple[int, float] | None:
        """Returns the time and the value of the first sample of a series from a time on; None if there is none."""
        return next(self._values(name, since), None)

    def mean(self, name: str, since: int) -> float | None:
        """Returns the mean of a series from a time on; None without samples."""
        values: list[float] = [value for _time, value in self._values(name, since)]
        return sum(values) / len(values) if values else None

    def last_above(self, name: str, bound: float) -> int | None:
        """Returns the time of the last sample of a series with a greater value; None if there is none."""
        column = self._columns[name]
        return next((self._times[place] for place in reversed(range(len(column))) if column[place] > bound), None)

    def _values(self, name: str, since: int) -> Iterator[tuple[int, float]]:
        first = bisect_left(self._times, since)
        samples = zip(self._times[first:], self._columns[name][first:], strict=True)
        return ((time, value) for time, value in samples if not math.isnan(value))


def _plain(column: Iterable[float]) -> list[float | None]:
    """Numbers as JSON has them: there is no NaN, and digits that nobody reads are left out."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in column]
