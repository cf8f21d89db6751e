"""The memory of the processes of an application: its own, and those of task hosts and workers."""

from __future__ import annotations

import os

from millstream.core.process_memory import resident_bytes
from millstream.runtime.messages import TaskResult

_FORGOTTEN = 60.0
"""Seconds without a report after which a process counts as ended."""


class ProcessMemory:
    """Keeps the memory that each process has reported last.

    Processes are numbered: a process that takes the place of another one gets its number, so that the names are few.
    """

    def __init__(self) -> None:
        self._own = os.getpid()
        self._reported: dict[int, tuple[float, int]] = {}
        self._numbers: dict[int, int] = {}

    def note(self, result: TaskResult, now: float) -> None:
        """Notes the memory of the process that has produced a result.

        Args:
            result: The result.
            now: The time in seconds, on a clock for durations.
        """
        process = int(result.figures.get("process.id", self._own))
        if process != self._own:
            self._reported[process] = now, int(result.figures["process.memory"])
            self._forget(now)
            if process not in self._numbers:
                taken = set(self._numbers.values())
                self._numbers[process] = next(number for number in range(len(taken) + 1) if number not in taken)

    def read(self, now: float) -> dict[str, int]:
        """Returns the bytes of each process: ``application`` is that of the handle."""
        self._forget(now)
        others = {f"worker-{number}": self._reported[process][1] for process, number in self._numbers.items()}
        return {"application": resident_bytes(), **dict(sorted(others.items()))}

    def _forget(self, now: float) -> None:
        for process in [each for each, (time, _size) in self._reported.items() if time < now - _FORGOTTEN]:
            del self._reported[process]
            self._numbers.pop(process, None)
