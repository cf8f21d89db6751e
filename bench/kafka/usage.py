"""Processor time and memory of a process with its descendants, and of the broker."""

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
    """Sums the processor time of processes during a block. A process that ends counts with its last sample."""

    def __init__(self, process: int) -> None:
        super().__init__()
        self._process = process
        self._seconds: dict[int, tuple[str, float, float]] = {}
        self.memory = 0.0
        """The most memory in MB that the process and its descendants had at once, without the broker."""
        self._sample(begun=True)

    def by_kind(self) -> dict[str, float]:
        """Returns seconds by kind of process."""
        seconds: dict[str, float] = {}
        for kind, first, last in self._seconds.values():
            seconds[kind] = round(seconds.get(kind, 0.0) + last - first, 1)
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))

    def run(self) -> None:
        """Takes samples until the block ends."""
        while not self.ended.wait(_EVERY):
            self._sample()

    def _sample(self, *, begun: bool = False) -> None:
        """A session contains all descendants of a process, except those with a session of their own.

        Time that processes used before the block is not counted. Pages that processes share count for each in parts.
        """
        memory = 0
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
            if kind != "broker":
                memory += _memory(folder)
        self.memory = max(self.memory, memory / 1024)


def _memory(folder: Path) -> int:
    """The memory of a process in kB."""
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
