"""The protocol of the threads of an application.

Its supervisor and its workers are generators, so that one thread can run those of many applications in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from threading import Event
from typing import NamedTuple, Protocol, TypeAlias

from millstream.log.api import Log


class Idle(NamedTuple):
    """How long a worker may rest before its next step.

    Attributes:
        pause: Seconds to rest even if records arrive.
        wait: Seconds to wait for records after the pause, at most.
    """

    pause: float
    wait: float


WorkerSteps: TypeAlias = Generator[Idle, float, None]
"""The steps of a worker. It is sent the seconds for which it waits for records itself."""

SupervisorSteps: TypeAlias = Iterator[float]
"""The steps of a supervisor. It yields the seconds until the next one."""

Step: TypeAlias = Callable[[], None]


class RunningWorker(Protocol):
    """A worker that runs on a thread."""

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the worker."""
        ...

    def wake(self) -> None:
        """Has the next step run soon: its orders have changed."""
        ...

    def join(self, seconds: float) -> bool:
        """Waits for the end of the worker; returns whether it has ended."""
        ...


class SerialSteps(Protocol):
    """Runs steps one after the other, beside the thread that submits them. After one that fails, no other one runs."""

    @property
    def is_busy(self) -> bool:
        """Whether a step is in progress."""
        ...

    def submit(self, step: Step) -> None:
        """Adds a step. If too many steps wait, the caller waits, too.

        Raises:
            MillstreamError: An earlier step has failed.
        """
        ...

    def wait(self) -> None:
        """Waits until all steps have ended.

        Raises:
            MillstreamError: A step has failed.
        """
        ...

    def check(self) -> None:
        """Raises the error of a step that has failed."""
        ...

    def close(self) -> None:
        """Ends after all steps."""
        ...


class WatchedCall(Protocol):
    """A call of a user function that has a time limit."""

    @property
    def thread(self) -> int | None:
        """The identifier of the thread that is in a call; None: there is no call."""
        ...

    def check(self) -> bool:
        """Reports a call that exceeds its limit; returns whether there was one. It is called once a second."""
        ...


class Threads(Protocol):
    """Runs supervisors, workers and their publications.

    Attributes:
        log: The log that applications share; None: each opens its own.
        longest_wait: Seconds for which a worker without records may wait.
        waits: Whether a supervisor may block its thread to wait for a failure.
    """

    log: Log | None
    longest_wait: float
    waits: bool

    def supervise(self, name: str, steps: SupervisorSteps, stopping: Event) -> Callable[[], None]:
        """Runs a supervisor; returns a function that waits for the end of its thread.

        Args:
            name: Its name.
            steps: Its steps.
            stopping: Ends a wait between two steps.
        """
        ...

    def repeat(self, name: str, steps: SupervisorSteps, stopping: Event) -> Callable[[], None]:
        """Runs work in the background that may take long; as `supervise`."""
        ...

    def work(self, name: str, steps: WorkerSteps, ended: Callable[[], None]) -> RunningWorker:
        """Runs a worker.

        Args:
            name: Its name.
            steps: Its steps.
            ended: Called when the worker has failed.
        """
        ...

    def serial(self, name: str, waiting: int = 0) -> SerialSteps:
        """Returns what runs the publications of a worker.

        Args:
            name: Its name.
            waiting: The number of steps that may wait for the one in progress.
        """
        ...

    def watch(self, call: WatchedCall, seconds: float) -> Callable[[], None]:
        """Checks the time limit of calls at intervals; returns a function that ends this."""
        ...
