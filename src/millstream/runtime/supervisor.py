"""Supervises the execution of an application: lifecycle, restarts, errors, metrics, status and cleanup of the log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from millstream.errors import MillstreamError, RunError
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.execution import Execution, Progress, may_pass
from millstream.runtime.lifecycle import Lifecycle, State
from millstream.runtime.messages import TaskResult
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.observe.report import Reporter
from millstream.runtime.observe.status import Status
from millstream.runtime.publish.log_cleanup import LogCleaner
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.threads.api import SupervisorSteps, Threads
from millstream.runtime.threads.own import OWN_THREADS
from millstream.text.escaping import error_text

_MAX_BACKOFF = 60.0

ExecutionFactory: TypeAlias = Callable[[PreparedApplication, Metrics], Execution]


class Supervisor:
    """Runs a prepared application until it is stopped, has caught up, or fails.

    A failure that may pass (a broker, the log, Spark) is followed by a restart, after a pause that doubles each time. A
    restart that published something resets the count.

    Args:
        application: The application. The supervisor closes it at the end.
        execute: Creates the execution.
        life: The state of the application.
        until_caught_up: Stop once the input that exists now has been processed.
        clock: The clock for durations.
        threads: Runs the supervisor and the cleaner of the log.
    """

    def __init__(
        self,
        application: PreparedApplication,
        execute: ExecutionFactory,
        life: Lifecycle,
        *,
        until_caught_up: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        threads: Threads = OWN_THREADS,
    ) -> None:
        self.application = application
        self.life = life
        self.error: MillstreamError | None = None
        """The error that ended the application."""
        self._until_caught_up = until_caught_up
        config, name = application.program.config, application.id
        self.metrics = Metrics(application, clock)
        self._cleaner = LogCleaner(
            application.log,
            name,
            config["log.cleanup.interval.ms"],
            application.positions(),
            application.subscription.internal,
        )
        self.execution = execute(application, self.metrics)
        self._status = Status(name, config["status"], self.metrics)
        self.commands: dict[str, Callable[..., None]] = {"pause": self.pause, "resume": self.resume, "stop": self.stop}
        """The commands that other processes can give."""
        self._reporter = Reporter(application, self.metrics, self.commands)
        self._stopping = threading.Event()
        self._progressed = False
        self._blocked = False
        self._threads = threads
        self._name = f"millstream-{name}"
        self._join: Callable[[], None] = lambda: None

    # ----- control, from any thread ----------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the application."""
        self.life.listen(self._status.state_changed)
        self.life.listen(self._reporter.state_changed)
        self._reporter.start()
        self.life.change(State.STARTING)
        self._join = self._threads.supervise(self._name, self._supervise(), self._stopping)

    def stop(self) -> None:
        """Requests the end of the application, after the work that has begun."""
        self._stopping.set()
        self.life.change(State.PENDING_SHUTDOWN)

    def pause(self) -> None:
        """Finishes the work that has begun, and begins no other until `resume`."""
        self.execution.pause()
        self._reporter.paused(True)

    def resume(self) -> None:
        """Continues after `pause`."""
        self.execution.resume()
        self._reporter.paused(False)

    def wait(self, timeout: float | None) -> bool:
        """Waits until the application has ended; returns whether it has."""
        self.life.wait(lambda state: state.is_over, timeout)
        is_over = self.life.state.is_over
        if is_over:
            self._join()
        return is_over

    # ----- reports of the execution: `Observer` ----------------------------------------------------------------

    def preparing(self, step: str) -> AbstractContextManager[None]:
        """Shows a step of the start for as long as it takes."""
        return self._status.waiting(step)

    def published(self, progress: Progress) -> None:
        """Counts a committed publication."""
        self._progressed = True
        self._cleaner.batch({(t, p): end for result in progress.results for t, p, _start, end in result.offsets})
        self.metrics.add(progress)
        self._status.batch(progress.results)

    def measured(self, sizes: TaskResult) -> None:
        """Notes the sizes of stores."""
        self.metrics.measure([sizes])

    def printed(self, lines: Sequence[str]) -> None:
        """Shows what user functions have printed."""
        self._status.printed(lines)

    def restoring(self, progress: str) -> None:
        """Shows how far the restoration of stores is."""
        self.metrics.restoring = progress
        self._status.restoring()

    def retried(self, message: str) -> None:
        """Shows which work is run again."""
        self.metrics.restarted()
        self._status.retrying(message)
        self._reporter.retried(message)

    def blocked(self, reason: str | None) -> None:
        """Shows why there is no progress."""
        self._blocked = reason is not None
        self._status.trouble(reason)
        self._reporter.blocked(reason)

    # ----- the thread ------------------------------------------------------------------------------------------

    def _supervise(self) -> SupervisorSteps:
        try:
            self._cleaner.start(self._threads)
            with self._status:
                if self.application.lost:
                    self._status.lost(self.application.lost)
                yield from self._run_with_restarts()
        except MillstreamError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  (an unexpected error ends the application, too)
            self.error = self.execution.explain(error)
            if self.error is None:
                self.error = RunError(f"the application stopped: {error_text(error)}")
                self.error.__cause__ = error
        finally:
            self._finish()

    def _finish(self) -> None:
        self._status.error = self.error
        with contextlib.suppress(Exception):
            self._cleaner.stop()
        with contextlib.suppress(Exception):
            if not self._blocked:  # a broker that is away would not answer
                self.metrics.lag()
        with contextlib.suppress(Exception):
            if self.error is not None:
                self._reporter.failed(self.error)
            self._reporter.end(State.NOT_RUNNING if self.error is None else State.ERROR)
        with contextlib.suppress(Exception):
            self.application.close()
        if self.error is None:
            self.life.change(State.PENDING_SHUTDOWN)
            self.life.change(State.NOT_RUNNING)
        else:
            self.life.change(State.PENDING_ERROR)
            self.life.change(State.ERROR)

    def _run_with_restarts(self) -> SupervisorSteps:
        config = self.application.program.config
        failures = 0
        while True:
            self._progressed = False
            try:
                yield from self._run()
                return
            except MillstreamError as error:
                if not may_pass(error) or self._stopping.is_set():
                    raise
                failures = 1 if self._progressed else failures + 1
                if failures > config["restart.max.attempts"]:
                    raise
                pause = min(_MAX_BACKOFF, config["restart.backoff.ms"] / 1000 * 2 ** (failures - 1))
                self.metrics.restarted()
                self._status.failed(error, pause)
                self._reporter.failed(error)
                self.life.change(State.STARTING)
                yield pause
                if self._stopping.is_set():
                    return

    def _run(self) -> SupervisorSteps:
        execution = self.execution
        try:
            if not execution.start(self, self._stopping):
                return
            self.life.change(State.RUNNING)
            while True:
                execution.poll()
                self._status.refresh()
                if self._stopping.is_set() or (self._until_caught_up and execution.is_caught_up()):
                    break
                yield 0.0
            self.life.change(State.PENDING_SHUTDOWN)
            execution.drain()
        finally:
            execution.close()
