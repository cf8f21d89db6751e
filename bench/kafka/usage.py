"""Which processes use the processor: those that come of one, and the broker."""

from __future__ import annotations

import os
from pathlib import Path

from bench.kafka.background import Background

_EVERY = 0.5
_KINDS = {
    "kafka.Kafka": "broker",
    "millstream.runtime.host": "task hosts",
    "pyspark.daemon": "Spark's Python workers",
    "python_streaming_source_runner": "planner",
    "org.apache.spark": "Spark's Java",
}


class Usage(Background):
    """Adds up the processor time of processes while the block runs. Of processes that end, what was last seen."""

    def __init__(self, process: int) -> None:
        super().__init__()
        self._process = process
        self._seconds: dict[int, tuple[str, float, float]] = {}
        self._look(begun=True)

    def by_kind(self) -> dict[str, float]:
        """Seconds, by kind of process."""
        found: dict[str, float] = {}
        for kind, first, last in self._seconds.values():
            found[kind] = round(found.get(kind, 0.0) + last - first, 1)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def run(self) -> None:
        """Looks now and then until the block ends."""
        while not self.ended.wait(_EVERY):
            self._look()

    def _look(self, *, begun: bool = False) -> None:
        """A session has all that come of a process, except those that have begun one of their own.

        What processes have used before is not counted.
        """
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                command = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            number = int(folder.name)
            kind = next((kind for part, kind in _KINDS.items() if part in command), None)
            if kind is None and int(stat[3]) != self._process:
                continue
            seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            _, first, _ = self._seconds.get(number, ("", seconds if begun else 0.0, 0.0))
            self._seconds[number] = (kind or "application", first, seconds)
