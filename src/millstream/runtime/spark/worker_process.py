"""The process of a worker under Spark: one partition of a job that runs for as long as the application.

The worker does no I/O with Java while it runs, so it notices by itself that its parent or the driver is gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark import messages

from millstream.errors import MillstreamError, RunError
from millstream.runtime.messages import Failure, failure_of, pack
from millstream.runtime.program.program import Program, unpack_program
from millstream.runtime.real_time.channel import ChannelAddress, ChannelLink, join
from millstream.runtime.real_time.link import Link
from millstream.runtime.real_time.messages import Assignment
from millstream.runtime.real_time.process_guard import ProcessGuard, end_with_parent
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.user_code.garbage import collect_rarely
from millstream.runtime.user_code.user_output import OutputBuffer, log_like
from millstream.runtime.wire import PeerGone
from millstream.text.escaping import error_text

Work: TypeAlias = Callable[[Program, Assignment, Link, Path | None], None]
"""Runs a worker until it is ordered to stop; raises a MillstreamError if it fails."""

_SWITCH_SECONDS = 0.0005
"""The time after which the thread of the engine gives way to the one that publishes. Python's default, ten times as
long, doubles the time of a publication."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The function that Spark runs for one worker.

    Attributes:
        worker: The number of the worker.
        address: The address of the driver.
        program: The program of the application.
        directory: The directory for the state of all workers, on the machine of the driver.
        session_seconds: A process that stands still for longer ends.
        work: Runs the worker.
    """

    worker: int
    address: ChannelAddress
    program: ShippedProgram
    directory: Path
    session_seconds: float
    work: Work

    def __call__(self, _index: int, _rows: Iterable[int]) -> Iterator[bytes]:
        """Runs the worker. Returns its start number and its failure, packed, if it has failed.

        No error is raised: Spark would run the worker again.
        """
        end_with_parent()
        collect_rarely()
        sys.setswitchinterval(_SWITCH_SECONDS)
        _end_process_after_the_task()
        output = OutputBuffer()
        try:
            link = join(self.address, self.worker, output.take)
        except PeerGone:
            return
        if link is None:
            return
        guard = ProcessGuard(link.gone, self.session_seconds)
        failure = None
        with output.capture():
            try:
                self._run(link)
            except BaseException as error:  # noqa: BLE001  (every error must reach the driver)
                failure = _failure(self.worker, error)
        link.end(failure)
        guard.close()
        if failure is not None:
            yield pack((link.assignment.start, failure))

    def _run(self, link: ChannelLink) -> None:
        program = unpack_program(self.program.open())
        log_like(program.logging)
        self.work(program, link.assignment, link, _usable(self.directory))


def _failure(worker: int, error: BaseException) -> Failure:
    if not isinstance(error, MillstreamError):
        wrapped = RunError(f"worker {worker} failed: {error_text(error)}")
        wrapped.__cause__ = error
        error = wrapped
    return failure_of(error)


def _usable(directory: Path) -> Path | None:
    """The directory, created if need be; None if this machine cannot have it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return directory


def _end_process_after_the_task() -> None:
    """Has Spark not use this process again: it holds the memory and the modules of an application that has ended."""
    receiver = messages.SparkSocketMessageReceiver
    usual = receiver.get_finish_signal_from_stream

    def finish(self: messages.SparkMessageReceiver) -> None:
        usual(self)
        raise EOFError  # PySpark then tells Java not to reuse the process, and ends

    receiver.get_finish_signal_from_stream = finish  # type: ignore[method-assign]
