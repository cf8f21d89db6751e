"""From which offset on the changelogs of stores with expiring rows are still needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

_SAMPLES = 64


class LiveOffsets:
    """Finds the offset up to which all records of a changelog are of rows that have expired.

    A row that is put is not later than the time of its store. So when the rows up to time T have expired, everything
    that was published while the time of the store was not beyond T is not needed any more. For each changelog a few
    pairs (time, end offset) are remembered. None of it must be saved: the first pair after a restart covers all records
    before it.

    Only committed times count: a restarted task begins with them.

    Args:
        topics: The changelogs.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._published: deque[Mapping[str, tuple[int, int]]] = deque()
        self._samples: dict[str, deque[tuple[int, int]]] = {topic: deque() for topic in topics}

    @property
    def are_needed(self) -> bool:
        """Whether there are changelogs whose rows expire."""
        return bool(self._samples)

    def publish(self, times: Mapping[str, tuple[int, int]]) -> None:
        """Takes note of a publication that is handed over: by changelog, the time of its store, and its floor."""
        if self._samples:
            self._published.append(times)

    def committed(self, ends: Mapping[str, int]) -> dict[str, int]:
        """Takes note that the oldest of these publications has been committed.

        Args:
            ends: The end offset of each changelog after it.

        Returns:
            The least offset that is needed of each changelog, where it has changed.
        """
        if not self._samples:
            return {}
        changed = {}
        for topic, (time, floor) in self._published.popleft().items():
            samples = self._samples[topic]
            if topic in ends:
                _add(samples, time, ends[topic], (time - floor) // _SAMPLES)
            while samples and samples[0][0] <= floor:
                changed[topic] = samples.popleft()[1]
        return changed


def _add(samples: deque[tuple[int, int]], time: int, end: int, step: int) -> None:
    """Adds a pair. Pairs with nearly the same time are one: that with the later offset and the later time."""
    if samples and (time == samples[-1][0] or (len(samples) > 1 and time - samples[-2][0] < step)):
        samples[-1] = (time, end)
    else:
        samples.append((time, end))
