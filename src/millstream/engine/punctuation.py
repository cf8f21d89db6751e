"""Punctuators: functions that are called as time goes by, on stream time or on the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.engine.heap import JavaHeap

if TYPE_CHECKING:
    from millstream.engine.context import TaskContext


class Punctuator:
    """One function that is called at intervals; its next time, and whether it was cancelled, are state of the task."""

    __slots__ = ("_cell", "call", "interval")

    def __init__(self, call: Callable[[int], None], interval: int, cell: list[Any]) -> None:
        self.call = call
        self.interval = interval
        self._cell = cell

    @property
    def next(self) -> int:
        """When it is due."""
        due: int = self._cell[0][0]
        return due

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return bool(self._cell[0][1])

    def cancel(self) -> None:
        """Stops it for good."""
        self._cell[0] = (self.next, True)

    def reschedule(self, now: int) -> None:
        """Sets the next time: one interval on, or, if that has passed too, the next one in step that has not."""
        due = self.next + self.interval
        if now >= due:
            missed = (now - self.next) // self.interval
            due = self.next + (missed + 1) * self.interval
        self._cell[0] = (due, False)


class Punctuators:
    """The punctuators of a task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._clocks: dict[str, JavaHeap[Punctuator]] = {"stream": JavaHeap(), "wall": JavaHeap()}

    def schedule(self, clock: str, first: int, interval: int, call: Callable[[int], None], name: str) -> Punctuator:
        """Adds a punctuator; after a restart it goes on from where it was."""
        cell = self._context.cells.setdefault(f"{name}.punctuator", [(first, False)])
        punctuator = Punctuator(call, interval, cell)
        if not punctuator.cancelled:
            self._clocks[clock].offer(punctuator.next, punctuator)
        return punctuator

    def any(self, clock: str) -> bool:
        """Whether there are punctuators on a clock."""
        return len(self._clocks[clock]) > 0

    def due(self, clock: str) -> int | None:
        """When the next one of a clock is due; None if there is none."""
        heap = self._clocks[clock]
        return heap.least if len(heap) else None

    def run(self, clock: str, now: int) -> bool:
        """Calls those that are due, each once; returns whether there were any."""
        heap = self._clocks[clock]
        called = False
        while len(heap) and heap.least <= now:
            punctuator = heap.poll()
            if punctuator.cancelled:
                continue
            source, self._context.source = self._context.source, None
            try:
                punctuator.call(now)
            finally:
                self._context.source = source
            if not punctuator.cancelled:
                punctuator.reschedule(now)
                heap.offer(punctuator.next, punctuator)
            called = True
        return called
