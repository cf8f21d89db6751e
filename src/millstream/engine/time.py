"""The stream time of one operator, and how it goes on when the source is quiet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.engine.compile import Process
from millstream.plan.node import Node
from millstream.records import Headers

if TYPE_CHECKING:
    from millstream.engine.context import TaskContext

_LONGEST_TICK = 1_000


class StreamClock:
    """The greatest timestamp that an operator has seen; part of the task's state.

    With ``idle``, the clock goes on without records: once none came for that long on the wall clock, stream time moves
    as the wall clock does, counted from the last record. What closes in that time is told to ``advance``.

    Attributes:
        cell: The time itself, in a list of one; operators read and write it there.
    """

    def __init__(
        self,
        node: Node,
        context: TaskContext,
        idle: int | None,
        advance: Callable[[int, Headers], None] | None,
    ) -> None:
        self.cell: list[Any] = context.cell(node, "stream-time", -1)
        self._context = context
        self._idle = idle
        self._advance = advance
        if idle is not None:
            # The wall clock at the last record, and stream time then; nothing happens before the first record.
            self._last = context.cell(node, "last-record", (context.now, -1))
            every = min(idle, _LONGEST_TICK)
            context.punctuators.schedule("wall", context.now + every, every, self._tick, f"{node.name}.idle")

    def watch(self, process: Process) -> Process:
        """Notes when an operator takes records, if there is an idle time."""
        if self._idle is None:
            return process
        last, time, context = self._last, self.cell, self._context

        def noting(*record: Any) -> None:
            process(*record)
            last[0] = (context.now, time[0])

        return noting

    def _tick(self, now: int) -> None:
        since, base = self._last[0]
        assert self._idle is not None
        if base < 0 or now - since < self._idle:
            return
        moved = base + (now - since)
        if moved > self.cell[0]:
            self.cell[0] = moved
            if self._advance is not None:
                self._advance(moved, ())
