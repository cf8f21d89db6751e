"""The stream clock of one operator, and how it advances while its source is idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.core.durations import later
from millstream.core.records import Headers
from millstream.engine.compile import Process
from millstream.plan.node import Node

if TYPE_CHECKING:
    from millstream.engine.context import TaskContext

_LONGEST_TICK = 1_000


class StreamClock:
    """The stream time of an operator: the greatest timestamp that it has seen. It is part of the task's state.

    With ``idle``, the clock advances without records: if no record arrives for that long on the wall clock, stream time
    advances as the wall clock does, from the time of the last record.

    Attributes:
        cell: The time, in a list of one item that the operator reads and writes.

    Args:
        node: The operator.
        context: The context of the task.
        idle: The idle time, in milliseconds; None: the clock does not advance without records.
        advance: Called with the new time when the clock advances without records.
        has_pending: Whether the operator holds results that it would emit as time advances.
    """

    def __init__(
        self,
        node: Node,
        context: TaskContext,
        idle: int | None,
        advance: Callable[[int, Headers], None] | None,
        has_pending: Callable[[], bool] | None = None,
    ) -> None:
        self.cell: list[Any] = context.cell(node, "stream-time", -1)
        self._context = context
        self._idle = idle
        self._advance = advance
        self._has_pending = has_pending
        if idle is not None:
            # The wall clock and the stream time at the last record. The clock does not advance before the first record.
            self._last = context.cell(node, "last-record", (context.now, -1))
            every = min(idle, _LONGEST_TICK)
            context.punctuators.schedule_clock(context.now + every, every, self, f"{node.name}.idle")

    def watch(self, process: Process) -> Process:
        """Wraps the process of the operator, so that the time of the last record is kept if there is an idle time."""
        if self._idle is None:
            return process
        last, time, context = self._last, self.cell, self._context

        def watched(*record: Any) -> None:
            process(*record)
            last[0] = (context.now, time[0])

        return watched

    @property
    def may_emit(self) -> bool:
        """Whether the operator may emit results as the clock advances without records."""
        return self._has_pending is not None and self.advances_from is not None and self._has_pending()

    @property
    def advances_from(self) -> int | None:
        """The wall-clock time from which the clock advances without records; None before the first record."""
        since, base = self._last[0]
        assert self._idle is not None
        return None if base < 0 else since + self._idle

    def tick(self, now: int) -> None:
        """Advances the stream time if the source has been idle for long enough."""
        since, base = self._last[0]
        assert self._idle is not None
        if base < 0 or now - since < self._idle:
            return
        time = later(base, now - since)
        if time > self.cell[0]:
            self.cell[0] = time
            if self._advance is not None:
                self._advance(time, ())
