"""Execution of an application by workers that read, process and publish by themselves."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import count

from millstream.errors import BrokerError, MillstreamError
from millstream.log.api import Offsets
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.execution import Observer, Progress, unless_stopped
from millstream.runtime.publish.committer import error_of
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.link import Workers
from millstream.runtime.real_time.messages import Assignment, Report
from millstream.runtime.real_time.start import PreparedRealTime
from millstream.stages.exchange_graph import exchange_graph
from millstream.stages.task_id import TaskId

_POLL = 0.02
_LOOK_EVERY = 2.0
"""Seconds between two looks for new topics and partitions."""

_GRACE = 8.0
"""Seconds that workers may take to commit and to end. The whole stop may take ten seconds."""


class RealTimeExecution:
    """Runs an application in workers. Implements `Execution`.

    Args:
        application: The application.
        make_workers: Creates its workers, given a function that is called when a worker was lost and starts again.
        until_caught_up: Read no input beyond its end of now.
        clock: The clock for durations.
    """

    def __init__(
        self,
        application: PreparedRealTime,
        make_workers: Callable[[Callable[[str], None]], Workers],
        *,
        until_caught_up: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._application = application
        self._make_workers = make_workers
        self._workers = make_workers(self._retried)
        self._clock = clock
        self._until = application.log.ends(application.topics) if until_caught_up else None
        self._coordinator: Coordinator | None = None
        self._observer: Observer | None = None
        self._reports: deque[Report] = deque()
        self._restoring: dict[int, str] = {}
        self._numbers = count()
        self._is_paused = False
        self._count = 1
        self._stopping = threading.Event()
        self._looked = 0.0

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        """Starts the workers."""
        self._observer = observer
        self._stopping = stopping
        self._looked = self._clock.monotonic()
        self._reports = deque()  # a worker of an earlier start may still report to the former one
        self._restoring.clear()
        with observer.preparing(self._workers.step):
            limit = unless_stopped(self._workers.open, stopping)
        if limit is None:
            return False
        application = self._application
        tasks = [slot.task for slot in application.slots]
        configured: int | None = application.program.config["num.workers"]
        self._count = max(1, min(configured or limit, len(tasks)))
        assigned: dict[int, list[TaskId]] = {number: [] for number in range(self._count)}
        for task in tasks:
            assigned[self._worker_of(task)].append(task)
        slots = dict(application.slots)
        graph = exchange_graph(application.program.placement)
        coordinator = Coordinator(
            graph,
            assigned,
            self._internal_ends(),
            exact=application.program.config["exact.replays"],
            tables=self._table_ends(),
            changed=self._workers.orders_changed,
        )
        if self._is_paused:
            coordinator.pause()
        assignments = [
            Assignment(
                number,
                application.epoch,
                [(task, slots[task]) for task in own],
                application.topics,
                application.identity,
                self._until,
            )
            for number, own in assigned.items()
        ]
        self._coordinator = coordinator

        def begin() -> bool:
            self._workers.start(assignments, coordinator, self._reports.append)
            if stopping.is_set():  # the start was abandoned meanwhile
                self._workers.close()
            return True

        if not unless_stopped(begin, stopping):
            return False
        if application.views is not None:
            application.views.start()
        return True

    def _retried(self, message: str) -> None:
        if self._observer is not None:
            self._observer.retried(message)

    def _worker_of(self, task: TaskId) -> int:
        """The worker of a task. The tasks of each sub-topology are spread over all workers.

        Tasks that read the same partition have the same worker, so that it is read once, and its offset is that of
        all of them.
        """
        return (task.partition + self._application.groups[task.subtopology]) % self._count

    def _table_ends(self) -> Offsets:
        """The ends of the topics of global tables up to which they are applied; none if there is no end to reach."""
        rows = {topic: (self._until or {}).get(topic, []) for topic in self._application.subscription.globals}
        return {(topic, number): end for topic, row in rows.items() for number, end in enumerate(row)}

    def _internal_ends(self) -> Offsets:
        ends = self._application.log.ends(sorted(self._application.subscription.internal), committed=False)
        return {(topic, number): end for topic, row in ends.items() for number, end in enumerate(row)}

    def poll(self) -> None:
        """Watches the workers for a moment, and passes their reports on."""
        try:
            self._workers.poll(_POLL)
        finally:
            self._pass_on()
        if self._until is None and self._clock.monotonic() >= self._looked + _LOOK_EVERY:
            self._looked = self._clock.monotonic()
            if self._has_new_inputs():
                self._start_again()

    def _has_new_inputs(self) -> bool:
        try:
            return self._application.has_new_inputs()
        except BrokerError as error:
            if not error.may_pass:
                raise
            return False  # the workers wait for the broker, or report that it is gone

    def _start_again(self) -> None:
        """Ends the workers, and starts others that read the topics and partitions that have come, too."""
        self._retried("there are new topics or partitions to read: the workers start again")
        assert self._observer is not None
        self.drain()
        self.close()
        self._application.prepare_again()
        self._workers = self._make_workers(self._retried)
        self.start(self._observer, self._stopping)

    def _pass_on(self) -> None:
        """Passes reports to the supervisor.

        Raises:
            MillstreamError: A worker has reported a failure.
        """
        assert self._observer is not None
        while self._reports:
            report = self._reports.popleft()
            if report.progress != self._restoring.get(report.worker, ""):
                self._restoring[report.worker] = report.progress
                self._observer.restoring(", ".join(filter(None, self._restoring.values())))
            if report.printed:
                self._observer.printed(report.printed)
            if report.failure is not None:
                raise error_of(report.failure)
            if report.result is not None:
                progress = Progress(
                    next(self._numbers), [report.result], report.seconds, report.commit_seconds, self._count
                )
                self._observer.published(progress)
            if report.sizes is not None:
                self._observer.measured(report.sizes)

    def is_caught_up(self) -> bool:
        """Whether the workers have processed all input that existed at the start, and all records that came of it."""
        return self._coordinator is not None and not self._is_paused and self._coordinator.is_caught_up()

    def pause(self) -> None:
        """Orders the workers to process nothing."""
        self._is_paused = True
        if self._coordinator is not None:
            self._coordinator.pause()

    def resume(self) -> None:
        """Orders the workers to continue."""
        self._is_paused = False
        if self._coordinator is not None:
            self._coordinator.resume()

    def drain(self) -> None:
        """Orders the workers to commit and to end, and waits for them."""
        assert self._coordinator is not None
        self._coordinator.stop()
        self._workers.stop(_GRACE)
        self._pass_on()

    def close(self) -> None:
        """Ends the workers."""
        self._workers.close()
        if self._application.views is not None:
            self._application.views.stop()
        self._coordinator = None

    def explain(self, error: Exception) -> MillstreamError | None:
        """Translates errors of the workers' environment."""
        return self._workers.explain(error)
