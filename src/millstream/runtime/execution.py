"""The seam between the supervisor of an application and the way in which the application is executed.

An execution reads input, runs tasks and publishes their output. Where it does so is its own concern: in micro-batches
on Spark with a commit on the driver, in the calling process, or in workers that read and publish by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from millstream.errors import BrokerError, LogError, MillstreamError, QueryError
from millstream.runtime.messages import TaskResult

T = TypeVar("T")

_POLL = 0.02


class Progress(NamedTuple):
    """One publication that was committed.

    Attributes:
        number: Number of the publication, counted by its publisher.
        results: The results of its tasks and read stages.
        seconds: Time spent to read and process.
        commit_seconds: Time spent to commit.
        parallelism: Number of tasks that ran at the same time.
    """

    number: int
    results: Sequence[TaskResult]
    seconds: float
    commit_seconds: float
    parallelism: int


class Observer(Protocol):
    """Receives the reports of an execution, from any thread. The supervisor implements it."""

    def preparing(self, step: str) -> AbstractContextManager[None]:
        """Reports a step of the start for as long as it takes."""
        ...

    def published(self, progress: Progress) -> None:
        """Reports a committed publication."""
        ...

    def measured(self, sizes: TaskResult) -> None:
        """Reports the sizes of stores, apart from a publication."""
        ...

    def printed(self, lines: Sequence[str]) -> None:
        """Reports lines that user functions have printed in other processes, apart from those of a publication."""
        ...

    def restoring(self, progress: str) -> None:
        """Reports how far the restoration of stores is; empty: none is restored."""
        ...

    def retried(self, message: str) -> None:
        """Reports work that was lost and is run again without a restart of the execution."""
        ...

    def blocked(self, reason: str | None) -> None:
        """Reports why there is no progress at present, such as a broker that does not answer; None: there is."""
        ...


class Execution(Protocol):
    """One way to run a prepared application.

    The supervisor calls all methods but `pause` and `resume` from one thread: `start`, then `poll` again and again,
    then `drain` if the application is to stop, then `close`; after a failure that may pass, `start` again. An
    implementation promises:

    - Each publication is atomic: outputs, state and input offsets are committed together, or not at all. After a
      failure, `start` continues with the last committed publication, in this process or another.
    - It publishes with the epoch of the prepared application. An older instance cannot publish any more.
    - Every committed publication is reported to the observer, once.
    - Errors of user code and of the log are raised by `poll` as they are. The supervisor decides about a restart.
    - It reads the wall clock only from the clock that it was given.
    """

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        """Starts to run the application; may block while resources are acquired.

        Args:
            observer: Receives the reports.
            stopping: Set when the application is to stop. A start that takes long is then abandoned.

        Returns:
            False if the start was abandoned.
        """
        ...

    def poll(self) -> None:
        """Watches the execution for a moment, or does a part of its work.

        Raises:
            MillstreamError: The execution has failed.
        """
        ...

    def is_caught_up(self) -> bool:
        """Whether all input that existed at the start was processed, and all records that came of it."""
        ...

    def pause(self) -> None:
        """Finishes the work that has begun, and begins no other until `resume`."""
        ...

    def resume(self) -> None:
        """Continues after `pause`."""
        ...

    def drain(self) -> None:
        """Finishes the work that has begun, within a few seconds, and begins no other.

        Raises:
            MillstreamError: The execution has failed meanwhile.
        """
        ...

    def close(self) -> None:
        """Ends the execution and releases its resources. Work that has not been committed is discarded."""
        ...

    def explain(self, error: Exception) -> MillstreamError | None:
        """Translates an unexpected error, such as a lost process; None if there is no better explanation."""
        ...


def unless_stopped(step: Callable[[], T], stopping: threading.Event) -> T | None:
    """Runs a step that may take long in another thread; returns None at once if the application is to stop."""
    future: Future[T] = Future()

    def take() -> None:
        try:
            future.set_result(step())
        except BaseException as error:  # noqa: BLE001  (it is raised where the result is used)
            future.set_exception(error)

    threading.Thread(target=take, name="millstream-start", daemon=True).start()
    while not futures.wait([future], _POLL).done:
        if stopping.is_set():
            return None
    return None if stopping.is_set() else future.result()


def may_pass(error: MillstreamError) -> bool:
    """Whether the failure may be gone after a restart. An error of the application or of its records stays."""
    if isinstance(error, BrokerError):
        return error.may_pass
    return isinstance(error, QueryError) or type(error) is LogError
