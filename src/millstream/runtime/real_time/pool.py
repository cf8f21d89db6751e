"""Keeps the processes of workers running: hands out assignments, watches heartbeats, starts lost workers again.

Where the processes run is the concern of `Jobs`. A process connects to the driver, and gets the assignment of a worker
with the next start number. The coordinator ignores reports with an earlier one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from millstream.config import Config
from millstream.errors import MillstreamError, QueryError, RunError, SetupError
from millstream.runtime.execution import may_pass
from millstream.runtime.host.process_identity import owner_record
from millstream.runtime.messages import Failure
from millstream.runtime.publish.committer import error_of
from millstream.runtime.real_time.channel import ChannelAddress
from millstream.runtime.real_time.channel_server import ChannelServer, Connection
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.link import ReportReceiver
from millstream.runtime.real_time.messages import Assignment, Report
from millstream.text.escaping import error_text

_MAX_BACKOFF = 60.0
_STABLE_SECONDS = 60.0
"""A worker that has run for this time starts with a new budget of restarts."""

_TICK = 1.0
_SLOT_SECONDS = 15.0
"""Time in which the processes of an application must start."""

_RESTART_SECONDS = 120.0
"""Time in which a lost process must start again. A cluster may first have to start another executor."""


class Jobs(Protocol):
    """Runs the processes of workers."""

    def submit(self, worker: int) -> None:
        """Starts a process for a worker, and returns at once. `WorkerPool.job_ended` is called when it has ended."""
        ...

    def cancel(self, worker: int) -> None:
        """Ends the process of a worker, wherever it runs, and returns at once."""
        ...

    def why_waiting(self, worker: int) -> str | None:
        """Why the process of a worker has not started; None if it has."""
        ...


@dataclass(slots=True)
class _Slot:
    """The state of one worker.

    Attributes:
        assignment: Its assignment, with the number of its last start.
        connection: The connection of its process.
        has_job: A process was submitted, and has not ended for good.
        has_connected: A process has connected since the last submission.
        failed_start: The last start that reported a failure.
        silence: Seconds since the last message of its process.
        began: When its process connected.
        has_progressed: It has committed something since then.
        losses: How many times in a row it was lost.
        due: When it may start again.
        waits_since: Since when it has no process.
    """

    assignment: Assignment
    connection: Connection | None = None
    has_job: bool = False
    has_connected: bool = False
    failed_start: int = 0
    silence: float = 0.0
    began: float = 0.0
    has_progressed: bool = False
    losses: int = 0
    due: float = 0.0
    waits_since: float = 0.0


class WorkerPool:
    """The workers of one application, each in a process of its own. Implements `Channel`.

    Args:
        config: The configuration of the application.
        jobs: Runs the processes.
        retried: Called with a message when a worker was lost and starts again.
        where_to_look: A hint about the logs of the processes.
    """

    def __init__(self, config: Config, jobs: Jobs, retried: Callable[[str], None], where_to_look: str = "") -> None:
        self._jobs = jobs
        self._retried = retried
        self._where_to_look = where_to_look
        self._max_losses: int = config["restart.max.attempts"]
        self._backoff: float = config["restart.backoff.ms"] / 1000
        self._session_timeout: float = config["session.timeout.ms"] / 1000
        self._slots: dict[int, _Slot] = {}
        self._changed = threading.Condition()
        self._messages: list[str] = []
        self._failure: MillstreamError | None = None
        self._is_stopping = False
        self._last_tick = time.monotonic()
        self._coordinator: Coordinator | None = None
        self._receive: ReportReceiver = lambda _report: None
        self._server: ChannelServer | None = None

    # ----- Workers ---------------------------------------------------------------------------------------------

    def open(
        self,
        assignments: Sequence[Assignment],
        coordinator: Coordinator,
        receive: ReportReceiver,
        *,
        bind: str = "127.0.0.1",
        host: str = "127.0.0.1",
    ) -> ChannelAddress:
        """Opens the channel for the workers, and returns its address. `poll` submits the workers.

        Args:
            assignments: The assignments of the workers.
            coordinator: Makes their orders from their reports.
            receive: Receives the reports that the coordinator has accepted.
            bind: The address on which the driver listens.
            host: The address under which the workers reach it.
        """
        now = time.monotonic()
        self._coordinator, self._receive = coordinator, receive
        self._slots = {
            assignment.worker: _Slot(
                msgspec.structs.replace(assignment, start=assignment.start - 1), waits_since=now, due=now
            )
            for assignment in assignments
        }
        self._server = ChannelServer(self, coordinator, bind=bind, host=host)
        return self._server.address

    def orders_changed(self) -> None:
        """Has the current orders sent to all workers, at once."""
        if self._server is not None:
            self._server.notify()

    def poll(self, seconds: float) -> None:
        """Watches the workers for a moment, and starts those again that were lost.

        Raises:
            MillstreamError: A worker has failed, was lost too often, or cannot be started.
        """
        with self._changed:
            if not self._submit_due() and self._failure is None and not self._messages:
                self._changed.wait(max(0.0, min([seconds, *self._delays()])))
            self._submit_due()
            self._tick()
            messages, self._messages = self._messages, []
            failure = self._failure
        for message in messages:
            self._retried(message)
        if failure is not None:
            raise failure

    def stop(self, seconds: float) -> None:
        """Waits until all workers have ended, after the coordinator has ordered them to stop.

        Raises:
            MillstreamError: A worker has failed meanwhile.
        """
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            self._changed.wait_for(self._has_ended, seconds)
            if self._failure is not None:
                raise self._failure

    def close(self, seconds: float = 0.0) -> None:
        """Ends all workers at once, and closes the channel.

        Args:
            seconds: The longest time to wait for the end of their processes.
        """
        with self._changed:
            self._is_stopping = True
            running = [number for number, slot in self._slots.items() if slot.has_job]
            connections = [slot.connection for slot in self._slots.values() if slot.connection is not None]
            self._changed.notify_all()
        for number in running:
            self._jobs.cancel(number)
        if self._server is not None:
            self._server.close()
        for connection in connections:
            _kill(connection)
        with self._changed:
            self._changed.wait_for(self._has_ended, seconds)

    def _has_ended(self) -> bool:
        return not any(slot.has_job for slot in self._slots.values())

    # ----- Channel: calls from the threads of connections ------------------------------------------------------

    def admit(self, connection: Connection) -> Assignment | None:
        """Returns the assignment for a process, once the worker may start again; None if the process is not needed."""
        with self._changed:
            slot = self._slots.get(connection.hello.worker)
            while slot is not None and not self._is_over() and (delay := slot.due - time.monotonic()) > 0:
                self._changed.wait(delay)
            if slot is None or self._is_over():
                return None
            if slot.connection is not None:
                # Spark runs the worker again although its process lives, as on an executor that Spark cannot reach.
                self._replace(slot, "Spark started it again")
            assignment = msgspec.structs.replace(slot.assignment, start=slot.assignment.start + 1)
            slot.assignment, slot.connection, slot.has_connected = assignment, connection, True
            slot.silence, slot.began, slot.has_progressed = 0.0, time.monotonic(), False
            self._changed.notify_all()
            return assignment

    def report(self, connection: Connection, report: Report) -> None:
        """Passes a report to the coordinator, and to the receiver if the coordinator accepts it.

        The pool handles failures: it starts the worker again, or `poll` raises the error.
        """
        with self._changed:
            slot = self._current(connection)
            if slot is None:
                return
            slot.silence = 0.0
            slot.has_progressed |= report.result is not None
        failure = report.failure
        if failure is not None:
            report = msgspec.structs.replace(report, failure=None)
            with self._changed:
                self._fail(slot, report.start, failure)
        assert self._coordinator is not None
        if self._coordinator.report(report):
            self._receive(report)

    def heard(self, connection: Connection) -> None:
        """Notes a heartbeat."""
        with self._changed:
            slot = self._current(connection)
            if slot is not None:
                slot.silence = 0.0

    def gone(self, connection: Connection) -> None:
        """Notes that the process of a worker has ended."""
        with self._changed:
            slot = self._current(connection)
            if slot is None:
                return
            if self._is_stopping:
                slot.connection = None
            else:
                self._lose(slot, "its process has ended")

    def failed(self, error: BaseException) -> None:
        """Notes an unexpected error in the driver; `poll` raises it."""
        with self._changed:
            if not isinstance(error, MillstreamError):
                unexpected = RunError(f"the application stopped: {error_text(error)}")
                unexpected.__cause__ = error
                error = unexpected
            self._failure = self._failure or error
            self._changed.notify_all()

    def job_ended(self, worker: int, result: tuple[int, Failure] | None, error: str | None) -> None:
        """Notes that a process that was submitted has ended for good.

        Args:
            worker: The worker.
            result: The number of the start and its failure, if the worker has failed.
            error: Why the process was lost; None if it has returned.
        """
        with self._changed:
            slot = self._slots[worker]
            slot.has_job = False
            self._changed.notify_all()
            if result is not None:
                self._fail(slot, *result)
            elif self._is_stopping:
                return
            elif slot.connection is not None:
                self._replace(slot, error or "its process has ended")
            elif not slot.has_connected:
                self._lose(slot, error or "its process could not connect to the driver")

    # ----- losses ----------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return self._is_stopping or self._failure is not None

    def _current(self, connection: Connection) -> _Slot | None:
        """The worker of a connection; None if another process has replaced it."""
        slot = self._slots[connection.hello.worker]
        return slot if slot.connection is connection else None

    def _fail(self, slot: _Slot, start: int, failure: Failure) -> None:
        """Starts a worker again after a failure that may pass. Every other failure ends the application."""
        if start <= slot.failed_start:
            return  # it was reported through the channel, and is the result of the job, too
        slot.failed_start = start
        error = error_of(failure)
        if may_pass(error) and not self._is_stopping:
            self._lose(slot, error.message)
        else:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _replace(self, slot: _Slot, cause: str) -> None:
        """Takes the work from a process that lives."""
        assert slot.connection is not None
        slot.connection.close()
        _kill(slot.connection)
        self._lose(slot, cause)

    def _lose(self, slot: _Slot, cause: str) -> None:
        """Counts a loss, and decides when the worker may start again."""
        now = time.monotonic()
        number = slot.assignment.worker
        if slot.connection is not None and (slot.has_progressed or now - slot.began >= _STABLE_SECONDS):
            slot.losses = 0
        slot.connection = None
        slot.waits_since = now
        slot.losses += 1
        self._changed.notify_all()
        if slot.losses > self._max_losses:
            times = f"{slot.losses} times in a row" if slot.losses > 1 else "once"
            self._failure = self._failure or RunError(
                f"worker {number} was lost {times}, the last time because {cause}",
                hint=f"restart.max.attempts is {self._max_losses}; {self._where_to_look}".rstrip("; "),
            )
            return
        delay = 0.0 if slot.losses == 1 else min(_MAX_BACKOFF, self._backoff * 2 ** (slot.losses - 2))
        slot.due = now + delay
        self._messages.append(f"worker {number} was lost and starts again: {cause}")

    # ----- watching --------------------------------------------------------------------------------------------

    def _delays(self) -> list[float]:
        """Seconds until each worker without a process may start again."""
        now = time.monotonic()
        return [slot.due - now for slot in self._slots.values() if not slot.has_job]

    def _submit_due(self) -> bool:
        """Submits the workers that may start; returns whether there were any."""
        now = time.monotonic()
        due = [n for n, slot in self._slots.items() if not slot.has_job and slot.due <= now and not self._is_over()]
        for number in due:
            self._slots[number].has_job, self._slots[number].has_connected = True, False
            self._jobs.submit(number)
        return bool(due)

    def _tick(self) -> None:
        """Ends workers that are silent, and fails if a worker does not start."""
        now = time.monotonic()
        elapsed, self._last_tick = now - self._last_tick, now
        for number, slot in self._slots.items():
            if slot.connection is not None:
                # If this process was stopped for a while, the heartbeats of that time have not been received yet.
                slot.silence += min(elapsed, _TICK)
                if slot.silence > self._session_timeout:
                    self._end_silent(slot)
            elif slot.has_job and not self._is_over():
                self._check_start(number, slot, now)

    def _end_silent(self, slot: _Slot) -> None:
        assert slot.connection is not None
        slot.connection.close()
        if not _kill(slot.connection):
            self._jobs.cancel(slot.assignment.worker)
        self._lose(slot, f"it sent no heartbeat for {self._session_timeout:g} s (session.timeout.ms), and was ended")

    def _check_start(self, number: int, slot: _Slot, now: float) -> None:
        is_first = slot.assignment.start == 0
        waited = now - max(slot.waits_since, slot.due)
        if waited <= (_SLOT_SECONDS if is_first else _RESTART_SECONDS):
            return
        reason = self._jobs.why_waiting(number)
        if reason is None and waited <= _RESTART_SECONDS:
            return
        kind = SetupError if is_first else QueryError
        self._failure = self._failure or kind(
            f"worker {number} has not started for {waited:.0f} s: {reason or 'its process does not connect'}",
            hint="lower num.workers, stop other applications of the session, or give Spark more cores"
            if reason
            else self._where_to_look,
        )


def _kill(connection: Connection) -> bool:
    """Ends the process of a connection if it runs on this machine; returns whether it does."""
    hello = connection.hello
    if hello.host != socket.gethostname() or owner_record(hello.pid) != hello.process:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(hello.pid, signal.SIGKILL)
    return True
