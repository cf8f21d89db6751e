"""Punctuators: functions that are called at intervals of stream time or of the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.core.durations import END_OF_TIME
from millstream.engine.heap import JavaHeap

if TYPE_CHECKING:
    from millstream.engine.context import TaskContext
    from millstream.engine.stream_clock import StreamClock


NEVER = END_OF_TIME + 1
"""A time that no clock reaches."""


class Punctuator:
    """A function that is called at intervals. Its next time and its cancellation are state of the task.

    Attributes:
        clock: The stream clock that the function advances; None for a punctuator of a user.
    """

    __slots__ = ("_cell", "call", "clock", "interval")

    def __init__(
        self, call: Callable[[int], None], interval: int, cell: list[Any], clock: StreamClock | None = None
    ) -> None:
        self.call = call
        self.interval = interval
        self.clock = clock
        self._cell = cell

    @property
    def next(self) -> int:
        """The time of the next call."""
        due: int = self._cell[0][0]
        return due

    @property
    def cancelled(self) -> bool:
        """Whether the punctuator is cancelled."""
        return bool(self._cell[0][1])

    def cancel(self) -> None:
        """Cancels the punctuator."""
        self._cell[0] = (self.next, True)

    def reschedule(self, now: int) -> None:
        """Sets the next time: one interval later, or as many intervals as needed to be later than now."""
        due = self.next + self.interval
        if now >= due:
            missed = (now - self.next) // self.interval
            due = self.next + (missed + 1) * self.interval
        self._cell[0] = (min(due, NEVER), False)


class Punctuators:
    """The punctuators of a task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._clocks: dict[str, JavaHeap[Punctuator]] = {"stream": JavaHeap(), "wall": JavaHeap()}

    def schedule(self, clock: str, first: int, interval: int, call: Callable[[int], None], name: str) -> Punctuator:
        """Adds a punctuator. After a restart it continues with its stored next time."""
        cell = self._context.cells.setdefault(f"{name}.punctuator", [(first, False)])
        return self._offer(clock, Punctuator(call, interval, cell))

    def schedule_clock(self, first: int, interval: int, clock: StreamClock, name: str) -> None:
        """Adds a punctuator that advances an idle stream clock."""
        cell = self._context.cells.setdefault(f"{name}.punctuator", [(first, False)])
        self._offer("wall", Punctuator(clock.tick, interval, cell, clock))

    def _offer(self, clock: str, punctuator: Punctuator) -> Punctuator:
        if not punctuator.cancelled:
            self._clocks[clock].offer(punctuator.next, punctuator)
        return punctuator

    def any(self, clock: str) -> bool:
        """Whether there are punctuators on a clock."""
        return len(self._clocks[clock]) > 0

    def due(self) -> int | None:
        """Earliest wall-clock time at which a punctuator may emit something; None if there is none."""
        wall = self._clocks["wall"]
        return min((p.next for p in wall if p.clock is None or p.clock.may_emit), default=None)

    def asleep(self) -> int | None:
        """Earliest wall-clock time at which an idle stream clock would advance with nothing to emit; None without one.

        That needs no batch. But the clock must have advanced before the next record, which may be late by then.
        """
        clocks = ((p.next, p.clock) for p in self._clocks["wall"] if p.clock is not None)
        times = ((due, clock.advances_from) for due, clock in clocks if not clock.may_emit)
        return min((max(due, start) for due, start in times if start is not None), default=None)

    def run(self, clock: str, now: int, *, is_quiet: bool = True) -> bool:
        """Calls the punctuators that are due, each once; returns whether there were any.

        Idle stream clocks advance only if it is quiet: otherwise the log has records that the task has not taken.
        """
        heap = self._clocks[clock]
        called = False
        postponed: list[Punctuator] = []
        while len(heap) and heap.least <= now:
            punctuator = heap.poll()
            if punctuator.cancelled:
                continue
            if punctuator.clock is not None and not is_quiet:
                postponed.append(punctuator)
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
        for punctuator in postponed:
            heap.offer(punctuator.next, punctuator)
        return called
