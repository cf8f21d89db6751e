"""A task of a connector: a thread that moves records, restarts after failures that may pass, and can be paused."""

from __future__ import annotations

import enum
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from millstream.config import Config
from millstream.connect import Connector, Transform
from millstream.errors import (
    BrokerError,
    ConnectorError,
    FencedError,
    LogError,
    MillstreamError,
    RegistryError,
)
from millstream.log.api import Log
from millstream.text.escaping import error_text

R = TypeVar("R")

_FENCED_FOR = 5.0
"""Seconds in which an application that was prepared again gets its new epoch."""

_MAX_BACKOFF = 60.0


class TaskState(enum.Enum):
    """The state of a task, with the names of Kafka Connect; FINISHED: its source has ended."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"


class Environment(NamedTuple):
    """What the tasks of an application share.

    Attributes:
        application: The application id.
        log: The log.
        config: The configuration of the application.
        registry: The schema registry, for serdes.
        epoch: Returns the epoch of the application's instance.
        tell: Shows a message to the user.
    """

    application: str
    log: Log
    config: Config
    registry: Any
    epoch: Callable[[], int]
    tell: Callable[[str], None]


class Tally:
    """The metrics of a task. Its thread changes them, others read them."""

    def __init__(self) -> None:
        self.records = 0
        self.commits = 0
        self.dropped: dict[str, int] = {}
        self.dead_letters = 0
        self.restarts = 0
        self.gauges: dict[str, float] = {}
        self.progress = ""

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts records that are dropped."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count


class ConnectorTask(ABC):
    """One task of a connector.

    Args:
        environment: What the tasks share.
        connector: The connector.
        name: The name of the task: of a split of a source, or the number of a sink's task.
    """

    def __init__(self, environment: Environment, connector: Connector, name: str) -> None:
        self.name = name
        self.connector = connector.name
        self.application = environment.application
        self.tally = Tally()
        self.state = TaskState.UNASSIGNED
        self.error: MillstreamError | None = None
        self.fenced = False
        self._environment = environment
        self._was_idle = threading.Event()
        self._halt = threading.Event()
        """Set: the work ends as soon as possible, for a stop, a pause or a restart."""
        self._orders = threading.Condition()
        self._is_paused = False
        self._is_stopped = False
        self._restart = False
        self._progressed = False
        self._thread = threading.Thread(
            target=self._run, name=f"millstream-connector-{connector.name}-{name}", daemon=True
        )

    # ----- control, from other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def order(self, *, paused: bool | None = None, stopped: bool | None = None, restart: bool = False) -> None:
        """Pauses, resumes, stops or restarts the task."""
        with self._orders:
            self._is_paused = self._is_paused if paused is None else paused
            self._is_stopped = self._is_stopped if stopped is None else stopped
            self._restart = self._restart or restart
            if self._is_paused or self._is_stopped or self._restart:
                self._halt.set()
            self._orders.notify_all()

    def join(self, seconds: float) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def expect_idle(self) -> None:
        """Begins to watch for a moment at which the task has nothing to do: see `was_idle`."""
        self._was_idle.clear()

    @property
    def was_idle(self) -> bool:
        """Whether it had nothing to do at some moment since `expect_idle`, or has finished."""
        return self._was_idle.is_set() or self.state is TaskState.FINISHED

    # ----- what connectors see: `Context` ---------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether the connector is to end."""
        return self._halt.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits; returns at once if the connector is to end."""
        return self._halt.wait(seconds)

    def gauge(self, name: str, value: float) -> None:
        """Sets a metric."""
        self.tally.gauges[name] = value

    def report(self, message: str) -> None:
        """Shows the progress of a long step."""
        self.tally.progress = message

    def warn(self, message: str) -> None:
        """Shows a message to the user."""
        self._tell(message)

    # ----- the thread -----------------------------------------------------------------------------------------

    @abstractmethod
    def _work(self) -> bool:
        """Moves records until the task is to end; returns whether the source has ended."""

    def _run(self) -> None:
        failures = 0
        while self._may_work():
            self._progressed = False
            pause = 0.0
            try:
                self.state = TaskState.RUNNING
                if self._work():
                    self._finish()
            except Exception as error:  # noqa: BLE001  (connectors raise many types; the task shows each of them)
                failure = self._failure(error)
                failures = 1 if self._progressed else failures + 1
                if isinstance(failure, FencedError) and self._has_new_epoch():
                    continue
                self.error = failure
                if not _may_pass(failure) or failures > self._environment.config["restart.max.attempts"]:
                    self._fail(failure)
                    continue
                pause = min(_MAX_BACKOFF, self._environment.config["restart.backoff.ms"] / 1000 * 2 ** (failures - 1))
                self.state = TaskState.RESTARTING
                self.tally.restarts += 1
                self._tell(f"{failure.message}: trying again in {pause:g} s")
            else:
                self.error, failures = None, 0
            self._halt.wait(pause)
        self.state = TaskState.FAILED if self.state is TaskState.FAILED else TaskState.STOPPED

    def _may_work(self) -> bool:
        """Waits while the task is paused; returns whether it is to work."""
        with self._orders:
            while self._is_paused and not self._is_stopped:
                self.state = TaskState.PAUSED
                self._orders.wait()
            self._restart = False
            if not self._is_stopped:
                self._halt.clear()
            return not self._is_stopped

    def _finish(self) -> None:
        """Waits for a restart after the end of the source."""
        self.state = TaskState.FINISHED
        self._await_restart()

    def _fail(self, error: MillstreamError) -> None:
        """Shows the error, and waits for a restart."""
        self.state = TaskState.FAILED
        self.fenced = isinstance(error, FencedError)
        self._tell(f"has failed: {error}")
        self._await_restart()

    def _await_restart(self) -> None:
        with self._orders:
            while not (self._restart or self._is_stopped):
                self._orders.wait()

    def _tell(self, message: str) -> None:
        self._environment.tell(f"connector {self.connector}, task {self.name}: {message}")

    def _has_new_epoch(self) -> bool:
        """Whether the application has got a new epoch, which fences the tasks of the earlier one."""
        end = time.monotonic() + _FENCED_FOR
        while self._environment.epoch() == self._application_epoch:
            if time.monotonic() > end or self._halt.wait(0.05):
                return False
        return True

    _application_epoch = -1

    def _failure(self, error: Exception) -> MillstreamError:
        if isinstance(error, MillstreamError):
            return error
        failure = ConnectorError(
            f"{type(self).__name__} has stopped: {error_text(error)}", hint="see the cause; the position was kept"
        )
        failure.__cause__ = error
        return failure

    def _progress(self, records: int) -> None:
        """Counts a commit."""
        self._progressed = True
        self.tally.records += records
        self.tally.commits += 1
        self.error = None


def _may_pass(error: MillstreamError) -> bool:
    if isinstance(error, (BrokerError, ConnectorError)):
        return error.may_pass
    return type(error) is LogError or isinstance(error, RegistryError)


class RecordFailure(NamedTuple):
    """A record that a transform, a converter or a serde does not accept."""

    record: Any
    reason: str
    error: BaseException


def transformed(
    records: Sequence[R], transforms: Sequence[Transform], failed: Callable[[RecordFailure], None]
) -> Sequence[R]:
    """Applies transforms to records, one after the other.

    Args:
        records: The records.
        transforms: The transforms.
        failed: Called with a record on which a transform raises.
    """
    for transform in transforms:
        results: list[R] = []
        for record in records:
            try:
                result = transform(record)
            except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
                failed(RecordFailure(record, "transform error", error))
                continue
            if result is None:
                continue
            if isinstance(result, list | tuple):
                results.extend(result)
            else:
                results.append(result)
        records = results
    return records


def function_place(transforms: Iterable[Transform]) -> str:
    """The names, files and lines of transforms, for errors."""
    places = []
    for function in transforms:
        code = getattr(function, "__code__", None)
        name = getattr(function, "__name__", type(function).__name__)
        places.append(f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name)
    return ", ".join(places)


def reason_of(error: BaseException) -> str:
    """The text of an error of one record."""
    return error.message if isinstance(error, MillstreamError) else error_text(error)


def shown(tally: Tally) -> Mapping[str, Any]:
    """The metrics of a task, for reports."""
    return {
        "records": tally.records,
        "commits": tally.commits,
        "dropped": dict(tally.dropped),
        "dead_letters": tally.dead_letters,
        "restarts": tally.restarts,
        "gauges": dict(tally.gauges),
        "progress": tally.progress,
    }
