"""Durations of publications and latencies of records, as histograms from the start of the application on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from millstream.runtime.messages import OutputBlock, TaskResult, sample_of
from millstream.runtime.observe.histograms import AGES, Histogram


class Latencies:
    """Durations of publications by phase, and latencies of records from end to end.

    - The processing latency is the time from when the first record of a publication was read until its results were
      committed: no record of the publication took longer.
    - The event-time latency is the age of an output record when it was committed: the time of the commit minus its
      timestamp. It is taken from a few records of each block, which stand for all records of the block.

    Args:
        sinks: The topics of the sinks, whose records are the output.
        internal: Topics of repartitions, whose records are no output. An application without sinks has its other
            topics, the changelogs, and its views as output.
    """

    def __init__(self, sinks: Collection[str], internal: Collection[str], *, has_sinks: bool) -> None:
        self._sinks = frozenset(sinks)
        self._internal = frozenset(internal)
        self._has_sinks = has_sinks
        self._phases: dict[str, Histogram] = {}
        self._whole = Histogram()
        self._processing = Histogram(AGES)
        self._event = Histogram(AGES)

    def add(self, phases: Mapping[str, float], whole: float, latency: float | None) -> None:
        """Counts a publication.

        Args:
            phases: The seconds of its phases.
            whole: The seconds that it took as a whole.
            latency: The processing latency in seconds; None: it had no records.
        """
        for name, seconds in phases.items():
            self._phases.setdefault(name, Histogram()).add(seconds)
        self._whole.add(whole)
        if latency is not None:
            self._processing.add(latency)

    def add_outputs(self, results: Iterable[TaskResult], committed: float) -> None:
        """Counts the ages of output records.

        Args:
            results: The results of a publication.
            committed: The time of the commit, in milliseconds.
        """
        for result in results:
            for block in result.blocks:
                if self._is_output(block):
                    self._add_sample(block.sample, block.count, committed)
            if not self._has_sinks:
                for change in result.changes:
                    self._add_sample(sample_of(change.timestamps), len(change.keys), committed)

    def _is_output(self, block: OutputBlock) -> bool:
        if self._has_sinks and self._sinks:
            return block.topic in self._sinks
        return block.topic not in self._internal

    def _add_sample(self, timestamps: Sequence[int], count: int, committed: float) -> None:
        for number, timestamp in enumerate(timestamps, 1):
            share = count * number // len(timestamps) - count * (number - 1) // len(timestamps)
            if timestamp >= 0:
                self._event.add(max(0.0, (committed - timestamp) / 1000), share)

    def read(self) -> dict[str, Any]:
        """Returns the histograms."""
        return {
            "phases": {name: histogram.read() for name, histogram in self._phases.items()},
            "publication": self._whole.read(),
            "latency": {"event": self._event.read(), "processing": self._processing.read()},
        }
