"""A worker: reads the partitions of its tasks, runs the engine, and publishes at intervals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from millstream.core.failpoints import declare, reach
from millstream.errors import MillstreamError
from millstream.log.api import Log
from millstream.log.opening import open_location
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.messages import failure_of
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.call_limit import CallLimit
from millstream.runtime.real_time.global_tables import GlobalTables
from millstream.runtime.real_time.hosted_task import HostedTask, Restoration, Shared
from millstream.runtime.real_time.input_partitioning import checks_of
from millstream.runtime.real_time.link import Link
from millstream.runtime.real_time.messages import Assignment, Orders, Report
from millstream.runtime.real_time.publications import Publications
from millstream.runtime.real_time.reading import Reading
from millstream.runtime.real_time.task import Layout
from millstream.runtime.real_time.worker_context import WorkerContext
from millstream.runtime.real_time.worker_rounds import WorkerRounds
from millstream.runtime.threads.api import Idle, Threads, WorkerSteps
from millstream.runtime.threads.own import OWN_THREADS, run_steps
from millstream.stages.exchange_graph import exchange_graph

POLLED = declare("worker.polled")
PROCESSED = declare("worker.processed")
RESTORING = declare("worker.restoring")
RESTORED = declare("worker.restored")

_SHORT_WAIT = 0.002
"""Seconds to wait for records while others wait for orders."""

_SPACING = 0.01
"""Seconds between two steps with few records."""

_FEW = 1000
"""The number of records up to which a step waits for more of them."""


class Worker:
    """One worker of an application.

    Args:
        context: What the parts of the worker share.
        directory: The directory of local page stores; None: there are none.
    """

    def __init__(self, context: WorkerContext, directory: Path | None = None) -> None:
        self._context = context
        self._clock = context.clock
        self._longest = context.threads.longest_wait
        self._started = 0.0
        self._read = 0
        with ExitStack() as opened:
            program, assignment, log = context.program, context.assignment, context.log
            self._globals = GlobalTables(program, log)
            opened.callback(self._globals.close)
            self._tasks: list[HostedTask] = []
            self._open_tasks(program, assignment, log, directory, opened)
            checked = {}
            if program.config["input.partitioning"] == "check":
                checked = checks_of(program.topology, program.counts, assignment.topics)
            skips_lost = program.config["data.loss.handler"] == "continue"
            self._reading = Reading(log, assignment.until, checked, skips_lost=skips_lost)
            opened.callback(self._reading.close)
            self._rounds = WorkerRounds(context, self._reading)
            self._publications = Publications(context, self._globals, self._rounds)
            opened.callback(self._publications.close)
            self._limit = CallLimit(program.config["task.timeout.ms"], self._fail, context.threads)
            opened.callback(self._limit.close)
            self._opened = opened.pop_all()

    def _open_tasks(
        self, program: Program, assignment: Assignment, log: Log, directory: Path | None, opened: ExitStack
    ) -> None:
        topologies = {topology.parts[0].index: topology for topology in program.placement.tasks if topology.parts}
        shared = Shared(
            Layout(program, exchange_graph(program.placement), assignment.topics),
            log,
            directory,
            self._globals.stores,
            program.config["host.memory.max.bytes"] // max(1, len(assignment.tasks)),
            assignment.identity,
        )
        for task, slot in assignment.tasks:
            hosted = HostedTask(task, slot, topologies[task.subtopology], shared)
            opened.callback(hosted.close)
            self._tasks.append(hosted)

    # ----- life ------------------------------------------------------------------------------------------------

    def steps(self) -> WorkerSteps:
        """Works until the coordinator orders it to stop.

        Raises:
            MillstreamError: A task or a publication has failed.
        """
        with self._opened:
            self._begin()
            yield from self._work()
            self._publications.publish_all()
            self._context.send(self._rounds.requests, phase="ended")

    def _begin(self) -> None:
        """Fences earlier instances of this worker, before anything is read."""
        self._publications.begin()
        writers = exchange_graph(self._context.program.placement).writers
        own = {task.id.subtopology for task in self._tasks}
        ends = self._context.log.ends([topic for topic, writer in writers.items() if writer in own], committed=False)
        self._context.link.begin(
            {(topic, number): end for topic, row in ends.items() for number, end in enumerate(row)}
        )
        self._context.send(0, phase="restoring")
        self._globals.load()

    def _work(self) -> WorkerSteps:
        restoring = deque((task, task.restore()) for task in self._tasks)
        while True:
            orders = self._context.link.orders()
            if orders.is_stopping:
                return
            self._publications.check()
            if restoring:
                self._restore(restoring)
            if orders.is_paused:
                self._publications.publish_if_due()
                self._clock.sleep((yield Idle(0.0, self._longest)))
                continue
            pause = self._pause()
            if pause > 0:
                yield Idle(pause, 0.0)
            seconds = yield Idle(0.0, 0.0 if restoring else self._wait())
            self._step(self._context.link.orders(), seconds)

    def _restore(self, restoring: deque[tuple[HostedTask, Iterator[Restoration]]]) -> None:
        """Restores a part of a task. A task begins when it is restored; it does not wait for the others."""
        task, steps = restoring[0]
        step = next(steps, None)
        if step is not None:
            reach(RESTORING)
            text = f"restoring task {task.id}: {step.applied:,} of {step.total:,} records"
            self._context.send(self._rounds.requests, phase="restoring", progress=text)
            return
        restoring.popleft()
        with self._limit.calling(task.name):
            running = task.begin(self._clock.time_ms())
        reach(RESTORED)
        self._publications.add(running)
        self._rounds.add(task, running)
        self._reading.begin(running)
        if not restoring:
            self._context.send(self._rounds.requests, phase="running")

    # ----- the loop --------------------------------------------------------------------------------------------

    def _step(self, orders: Orders, seconds: float) -> None:
        rounds, reading = self._rounds, self._reading
        rounds.begin(orders)
        self._read = reading.poll(seconds, rounds.requests + 1)
        self._started = started = self._clock.monotonic()
        reach(POLLED)
        self._globals.poll()
        reading.note_ends(rounds.requests + 1)
        rounds.apply(orders)
        is_paused = self._context.link.orders().is_paused  # it may have been ordered while records were awaited
        may_take = not is_paused and self._publications.may_take()
        if not self._publications.taken:
            self._publications.since = started
        now = self._clock.time_ms()
        for hosted in rounds.tasks:
            task = hosted.running
            assert task is not None
            due = task.due()
            if not task.waiting and due is None:
                continue
            has_more = {key: reading.has_more(key, task) for key in task.direct} if task.is_ordered else {}
            with self._limit.calling(hosted.name):
                if may_take:
                    self._publications.taken += task.run(now, has_more)
                due = task.due()
                if due is not None and now >= due:
                    task.advance(now, is_quiet=rounds.is_quiet(hosted, task))
        reach(PROCESSED)
        self._publications.send_outputs()
        rounds.settle()
        reading.limit_buffers()
        self._publications.seconds += self._clock.monotonic() - started
        self._publications.publish_if_due()
        rounds.request()

    def _pause(self) -> float:
        """Seconds to wait for more records if the last step had few: a step has a cost, and results wait anyway."""
        if 0 < self._read < _FEW and self._publications.collects:
            seconds = self._started + _SPACING - self._clock.monotonic()
            return min(seconds, self._publications.seconds_left - _SPACING)
        return 0.0

    def _wait(self) -> float:
        """Seconds to wait for records."""
        if self._publications.taken or self._publications.is_claiming:
            return min(self._publications.seconds_left, self._longest)
        if self._rounds.are_awaited:
            return _SHORT_WAIT
        times = [due for task in self._rounds.running() if (due := task.due()) is not None]
        if times:
            return max(0.0, min((min(times) - self._clock.time_ms()) / 1000, self._longest))
        return self._longest

    def _fail(self, error: MillstreamError) -> None:
        """Reports an error that this thread cannot raise: it is in a function that does not return."""
        self._context.send(self._rounds.requests, failure=failure_of(error))


def run_worker(
    program: Program, assignment: Assignment, link: Link, directory: Path | None, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Runs a worker until the coordinator orders it to stop; reports the error that ends it.

    Raises:
        MillstreamError: A task or a publication has failed.
    """
    run_steps(worker_steps(program, assignment, link, directory, clock), clock.sleep)


def worker_steps(
    program: Program,
    assignment: Assignment,
    link: Link,
    directory: Path | None,
    clock: Clock = SYSTEM_CLOCK,
    threads: Threads = OWN_THREADS,
) -> WorkerSteps:
    """Returns the steps of a worker: see `run_worker`."""
    with ExitStack() as opened:
        log = threads.log or opened.enter_context(open_location(program.log))
        try:
            yield from Worker(WorkerContext(program, assignment, log, link, clock, threads), directory).steps()
        except MillstreamError as error:
            report = Report(assignment.worker, assignment.start, phase="ended", failure=failure_of(error))
            link.send(report)
            raise
