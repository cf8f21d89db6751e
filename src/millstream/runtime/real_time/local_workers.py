"""Workers in threads of the calling process: without Spark and without Java."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from millstream.errors import MillstreamError
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.link import LocalLink, ReportReceiver
from millstream.runtime.real_time.messages import Assignment
from millstream.runtime.real_time.worker import worker_steps
from millstream.runtime.threads.api import RunningWorker, Threads
from millstream.runtime.threads.own import OWN_THREADS


class _Started:
    """The workers of one start.

    A thread cannot be ended. One that still waits for a broker when the workers are closed fails later, because the
    workers of the next start fence it, and that is no failure of theirs.
    """

    def __init__(self) -> None:
        self.workers: list[RunningWorker] = []
        self.has_failed = threading.Event()

    def check(self) -> None:
        """Raises the error of a worker that has failed."""
        errors = [worker.error for worker in self.workers if worker.error is not None]
        expected = [error for error in errors if isinstance(error, MillstreamError)]
        for error in (*expected, *errors):
            raise error


class LocalWorkers:
    """Workers in threads. Implements `Workers`.

    Args:
        program: The application.
        directory: The directory of local page stores; None: there are none.
        clock: The clock of the workers.
        threads: The threads: those of the application, or shared ones.
    """

    def __init__(
        self,
        program: Program,
        directory: Path | None,
        clock: Clock = SYSTEM_CLOCK,
        threads: Threads = OWN_THREADS,
    ) -> None:
        self._threads = threads
        self._program = program
        self._directory = directory
        self._clock = clock
        self._started = _Started()
        self._coordinator: Coordinator | None = None

    step = "starting the workers"

    def open(self) -> int:
        """Returns the number of workers: one, unless the configuration has another number."""
        count: int = self._program.config["num.workers"] or 1
        return count

    def orders_changed(self) -> None:
        """Has the workers read their orders from the coordinator soon."""
        for worker in list(self._started.workers):
            worker.wake()

    def explain(self, error: Exception) -> MillstreamError | None:
        """Knows no other errors than those of the workers."""
        return None

    def start(self, assignments: Sequence[Assignment], coordinator: Coordinator, receive: ReportReceiver) -> None:
        """Starts a worker for each assignment."""
        self._coordinator = coordinator
        self._started = started = _Started()
        for assignment in assignments:
            link = LocalLink(coordinator, assignment, receive)
            name = f"millstream-{self._program.topology.application_id}-{assignment.name}"
            steps = worker_steps(self._program, assignment, link, self._directory, self._clock, self._threads)
            started.workers.append(self._threads.work(name, steps, started.has_failed.set))

    def poll(self, seconds: float) -> None:
        """Waits for a moment.

        Raises:
            MillstreamError: A worker has failed.
        """
        self._started.has_failed.wait(seconds if self._threads.waits else 0)
        self._started.check()

    def stop(self, seconds: float) -> None:
        """Waits until all workers have ended.

        Raises:
            MillstreamError: A worker has failed.
        """
        deadline = self._clock.monotonic() + seconds
        for worker in self._started.workers:
            worker.join(max(0.0, deadline - self._clock.monotonic()))
        self._started.check()

    def close(self) -> None:
        """Orders all workers to stop, and waits for them for a moment: a thread cannot be ended."""
        if self._coordinator is not None:
            self._coordinator.stop()
        for worker in self._started.workers:
            worker.join(1.0)
