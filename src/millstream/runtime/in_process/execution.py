"""Execution of an application in the thread of its supervisor."""

from __future__ import annotations

import threading

from millstream.errors import MillstreamError
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.execution import Observer
from millstream.runtime.in_process.batches import Batches
from millstream.runtime.start.prepared_application import PreparedApplication

_POLL = 0.02


class InProcessExecution:
    """Runs batches one after the other, without Spark and without task hosts. Implements `Execution`.

    Args:
        application: The application.
        until_caught_up: Read no input beyond its end of now.
        records: Greatest number of records of a batch.
        clock: The clock from which batch times come.
    """

    def __init__(
        self,
        application: PreparedApplication,
        *,
        until_caught_up: bool = False,
        records: int = 10_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._application = application
        self._records = records
        self._clock = clock
        subscription = application.subscription
        inputs = [t for t in subscription.topics if t not in subscription.internal and t not in subscription.restores]
        self._until = application.log.ends(inputs) if until_caught_up else None
        self._batches: Batches | None = None
        self._observer: Observer | None = None
        self._paused = threading.Event()
        self._is_idle = False

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        """Builds planner, reader and committer."""
        self._observer = observer
        with observer.preparing("starting"):
            application = self._application
            at_most_once = application.program.config["processing.guarantee"] == "at_most_once"
            self._batches = Batches(
                application,
                records=self._records,
                ticks=True,
                until=self._until,
                skipped=application.started_batch() if at_most_once else None,
                clock=self._clock,
            )
        return not stopping.is_set()

    def poll(self) -> None:
        """Runs a batch, if there is a reason for one."""
        assert self._batches is not None
        assert self._observer is not None
        if self._paused.is_set():
            self._clock.sleep(_POLL)
            return
        self._is_idle = not self._batches.batch()
        self._observer.blocked(self._batches.problem)
        if not self._is_idle and self._batches.progress is not None:
            self._observer.published(self._batches.progress)

    def is_caught_up(self) -> bool:
        """Whether the planner found no reason for another batch."""
        return self._is_idle and not self._paused.is_set()

    def pause(self) -> None:
        """Runs no batch after the present one."""
        self._paused.set()

    def resume(self) -> None:
        """Runs batches again."""
        self._paused.clear()

    def drain(self) -> None:
        """Does nothing: no batch runs outside of `poll`."""

    def close(self) -> None:
        """Forgets the tasks. The next start reads their state from the checkpoint."""
        self._batches = None

    def explain(self, error: Exception) -> MillstreamError | None:
        """Knows no other errors than those of the application."""
        return None
