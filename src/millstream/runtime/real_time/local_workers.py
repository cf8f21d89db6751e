"""Workers as threads of the calling process: without Spark and without Java."""

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
from millstream.runtime.real_time.worker import run_worker


class _Started:
    """The threads of one start, and their errors.

    A thread cannot be ended. One that still waits for a broker when the workers are closed fails later, because the
    workers of the next start fence it, and that is no failure of theirs.
    """

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []
        self.has_failed = threading.Event()

    def check(self) -> None:
        """Raises the error of a worker that has failed."""
        expected = [error for error in self.errors if isinstance(error, MillstreamError)]
        for error in (*expected, *self.errors):
            raise error


class LocalWorkers:
    """Workers as threads. Implements `Workers`.

    Args:
        program: The application.
        directory: The directory of local page stores; None: there are none.
        clock: The clock of the workers.
    """

    def __init__(self, program: Program, directory: Path | None, clock: Clock = SYSTEM_CLOCK) -> None:
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
        """Does nothing: workers read the orders from the coordinator."""

    def explain(self, error: Exception) -> MillstreamError | None:
        """Knows no other errors than those of the workers."""
        return None

    def start(self, assignments: Sequence[Assignment], coordinator: Coordinator, receive: ReportReceiver) -> None:
        """Starts a thread for each assignment."""
        self._coordinator = coordinator
        self._started = started = _Started()
        for assignment in assignments:
            link = LocalLink(coordinator, assignment, receive)
            name = f"millstream-{self._program.topology.application_id}-{assignment.name}"
            thread = threading.Thread(target=self._run, args=(assignment, link, started), name=name, daemon=True)
            started.threads.append(thread)
            thread.start()

    def _run(self, assignment: Assignment, link: LocalLink, started: _Started) -> None:
        try:
            run_worker(self._program, assignment, link, self._directory, self._clock)
        except BaseException as error:  # noqa: BLE001  (the thread of the supervisor raises it)
            started.errors.append(error)
            started.has_failed.set()

    def poll(self, seconds: float) -> None:
        """Waits for a moment.

        Raises:
            MillstreamError: A worker has failed.
        """
        self._started.has_failed.wait(seconds)
        self._started.check()

    def stop(self, seconds: float) -> None:
        """Waits until all workers have ended.

        Raises:
            MillstreamError: A worker has failed.
        """
        deadline = self._clock.monotonic() + seconds
        for thread in self._started.threads:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        self._started.check()

    def close(self) -> None:
        """Orders all workers to stop, and waits for them for a moment: a thread cannot be ended."""
        if self._coordinator is not None:
            self._coordinator.stop()
        for thread in self._started.threads:
            thread.join(1.0)
