"""Measuring instruments of the benchmarks: progress over time, processor time, and the report."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

_BEGIN, _END = 0.15, 0.95
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Figure:
    """One line of the report.

    Attributes:
        case: The case it belongs to.
        what: The measured quantity.
        value: The figure.
        unit: Its unit.
        limit: The requirement, as text; empty if there is none.
        good: Whether it meets the requirement; None if there is none.
        notes: More about it: phases, sizes.
    """

    case: str
    what: str
    value: float
    unit: str
    limit: str = ""
    good: bool | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def at_least(self, limit: float, what: str = "") -> Figure:
        """Requires a minimum value."""
        self.limit, self.good = what or f">= {limit:,g}", self.value >= limit
        return self

    def at_most(self, limit: float, what: str = "") -> Figure:
        """Requires a maximum value."""
        self.limit, self.good = what or f"<= {limit:,g}", self.value <= limit
        return self

    def data(self) -> dict[str, Any]:
        """Returns the figure for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        mark = {True: "ok", False: "MISSED", None: ""}[self.good]
        number = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:,.2f}"
        line = f"  {self.what:52} {number:>12} {self.unit:16} {self.limit:12} {mark}"
        return "\n".join([line.rstrip(), *(f"      {name}: {show(value)}" for name, value in self.notes.items())])


def show(value: Any) -> str:
    """Returns a note in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {show(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return " ".join(show(each) for each in value)
    return str(value)


class Progress:
    """Processed records over time with their processor time: one sample at the end of each batch.

    The first part of a run, in which everything warms up, and its end do not count.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[float, int, float]] = []
        self.phases: list[dict[str, float]] = []

    def add(self, done: int) -> None:
        """Takes a sample of the number of processed records."""
        self._samples.append((time.perf_counter(), done, processor_seconds()))

    def intervals(self, skip: int = 0) -> list[float]:
        """Returns the milliseconds from the end of each batch to the end of the next."""
        times = [sample[0] for sample in self._samples[skip:]]
        return [1000 * (after - before) for before, after in pairwise(times)]

    def batch_records(self) -> float:
        """Returns the median size of the measured batches."""
        begin, end = self._edges()
        counts = [sample[1] for sample in self._samples[begin : end + 1]]
        return statistics.median(b - a for a, b in pairwise(counts))

    def rate(self) -> float:
        """Returns the records per second."""
        begin, end = (self._samples[place] for place in self._edges())
        return (end[1] - begin[1]) / (end[0] - begin[0])

    def effort(self) -> float:
        """Returns the processor time per record in microseconds: comparable also if other programs use the machine."""
        begin, end = (self._samples[place] for place in self._edges())
        return (end[2] - begin[2]) / (end[1] - begin[1]) * 1e6

    def _edges(self) -> tuple[int, int]:
        total = self._samples[-1][1]
        begin = next(n for n, sample in enumerate(self._samples) if sample[1] >= _BEGIN * total)
        end = next(n for n, sample in enumerate(self._samples) if sample[1] >= _END * total)
        if begin >= end:
            raise SystemExit("there are too few batches to measure anything: use a larger --scale")
        return begin, end


def medians(phases: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the median of each phase, in the order of their first occurrence."""
    names = dict.fromkeys(name for each in phases for name in each)
    return {name: statistics.median(each[name] for each in phases if name in each) for name in names}


def quantile(values: Iterable[float], part: float) -> float:
    """Returns a quantile of values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def processor_seconds() -> float:
    """Returns the processor time so far of this process, its descendants, and their task hosts."""
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            arguments = stat.with_name("cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(stat.parent.name)
        ticks[pid] = sum(int(number) for number in fields[11:15])
        parents[pid] = int(fields[1])
        if b"millstream.runtime.host" in arguments:
            # A task host is no descendant once the worker that started it has ended; its command line names its owner.
            parents[pid] = int(arguments[arguments.index(b"millstream.runtime.host") + 2])
    own = os.getpid()
    return sum(ticks[pid] for pid in ticks if _descends(pid, own, parents)) / _TICKS


def _descends(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while pid > 1 and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor


def machine() -> dict[str, Any]:
    """Returns a description of the machine."""
    name = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    load = [round(number, 1) for number in os.getloadavg()]
    return {"processor": name, "cores": os.cpu_count() or 0, "load": load, "date": time.strftime("%Y-%m-%d %H:%M")}
