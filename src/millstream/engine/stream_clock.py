"""The stream time of one operator, and how it goes on when the source is quiet."""

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
    """The greatest timestamp that an operator has seen; part of the task's state.

    With ``idle``, the clock goes on without records: once none came for that long on the wall clock, stream time moves
    as the wall clock does, counted from the last record. What closes in that time is told to ``advance``; ``waits``
    says whether there is anything left to close.

    Attributes:
        cell: The time itself, in a list of one; operators read and write it there.
    """

    def __init__(
        self,
        node: Node,
        context: TaskContext,
        idle: int | None,
        advance: Callable[[int, Headers], None] | None,
        waits: Callable[[], bool] | None = None,
    ) -> None:
        self.cell: list[Any] = context.cell(node, "stream-time", -1)
        self._context = context
        self._idle = idle
        self._advance = advance
        self._waits = waits
        if idle is not None:
            # The wall clock at the last record, and stream time then; nothing happens before the first record.
            self._last = context.cell(node, "last-record", (context.now, -1))
            every = min(idle, _LONGEST_TICK)
            context.punctuators.schedule_clock(context.now + every, every, self, f"{node.name}.idle")

    def watch(self, process: Process) -> Process:
        """Notes when an operator takes records, if there is an idle time."""
        if self._idle is None:
            return process
        last, time, context = self._last, self.cell, self._context

        def noting(*record: Any) -> None:
            process(*record)
            last[0] = (context.now, time[0])

        return noting

    @property
    def is_waited_for(self) -> bool:
        """Whether something comes out if only time goes on."""
        return self._waits is not None and self.moves_from is not None and self._waits()

    @property
    def moves_from(self) -> int | None:
        """From when on, on the wall clock, it moves without records; None if there was none yet."""
        since, base = self._last[0]
        assert self._idle is not None
        return None if base < 0 else since + self._idle

    def tick(self, now: int) -> None:
        """Looks at the wall clock."""
        since, base = self._last[0]
        assert self._idle is not None
        if base < 0 or now - since < self._idle:
            return
        moved = later(base, now - since)
        if moved > self.cell[0]:
            self.cell[0] = moved
            if self._advance is not None:
                self._advance(moved, ())
