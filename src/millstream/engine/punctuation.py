"""Punctuators: functions that are called as time goes by, on stream time or on the wall clock."""

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
    """One function that is called at intervals; its next time, and whether it was cancelled, are state of the task.

    Attributes:
        clock: The stream time that it moves; None if it is a user's, who alone knows what it is for.
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
        self._cell[0] = (min(due, NEVER), False)


class Punctuators:
    """The punctuators of a task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._clocks: dict[str, JavaHeap[Punctuator]] = {"stream": JavaHeap(), "wall": JavaHeap()}

    def schedule(self, clock: str, first: int, interval: int, call: Callable[[int], None], name: str) -> Punctuator:
        """Adds a punctuator; after a restart it goes on from where it was."""
        cell = self._context.cells.setdefault(f"{name}.punctuator", [(first, False)])
        return self._offer(clock, Punctuator(call, interval, cell))

    def schedule_clock(self, first: int, interval: int, clock: StreamClock, name: str) -> None:
        """Has a stream time look at the wall clock at intervals."""
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
        """When the wall clock is next waited for; None if it is not."""
        found = (one.next for one in self._clocks["wall"] if one.clock is None or one.clock.is_waited_for)
        return min(found, default=None)

    def asleep(self) -> int | None:
        """When a stream time would move next that nobody waits for; None if there is none.

        No batch is needed for that. But before a record comes, it must have moved: the record may be late by now.
        """
        clocks = ((one.next, one.clock) for one in self._clocks["wall"] if one.clock is not None)
        found = ((due, clock.moves_from) for due, clock in clocks if not clock.is_waited_for)
        return min((max(due, since) for due, since in found if since is not None), default=None)

    def run(self, clock: str, now: int, *, is_quiet: bool = True) -> bool:
        """Calls those that are due, each once; returns whether there were any.

        Stream times do not look at the wall clock unless it is quiet: records that they have not seen are there.
        """
        heap = self._clocks[clock]
        called = False
        put_off: list[Punctuator] = []
        while len(heap) and heap.least <= now:
            punctuator = heap.poll()
            if punctuator.cancelled:
                continue
            if punctuator.clock is not None and not is_quiet:
                put_off.append(punctuator)
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
        for punctuator in put_off:
            heap.offer(punctuator.next, punctuator)
        return called
