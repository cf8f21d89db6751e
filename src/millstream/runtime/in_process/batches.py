"""Runs the batches of an application one by one in the calling process, with the protocol that it has on Spark.

Planner, read stage, task runners and commit are those of the runtime. The loop, the checkpoint and the map that holds
the state take the place of Spark. A crash at any point leaves behind what it leaves on Spark, and a test of it takes
milliseconds.
"""

from __future__ import annotations

import time
from typing import Any, Self

import msgspec

from millstream.core.failpoints import declare, reach
from millstream.errors import MillstreamError
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.control import PlannerSettings
from millstream.runtime.batches.planner import Planner
from millstream.runtime.batches.task_schedule import TaskSchedule
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.definition import ApplicationDefinition
from millstream.runtime.execution import Progress
from millstream.runtime.in_process.checkpoint import FileCheckpoint, TaskStates
from millstream.runtime.messages import TaskInput, TaskResult, unpack
from millstream.runtime.publish.committer import Committer
from millstream.runtime.read.reader import TASK_INPUT, Reader, Row
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.tasks.warm import TOKEN_KEY, WarmTasks

AFTER_OFFSETS = declare("in-process.after-offsets")
AFTER_STATE = declare("in-process.after-state")
AFTER_PUBLISH = declare("in-process.after-publish")


class Settings:
    """The settings of a planner in the same process. Implements `PlannerControl`.

    Attributes:
        now: The settings.
        problem: The failure that keeps the planner from planning, if any does.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.now = settings
        self.problem: str | None = None

    def read(self) -> PlannerSettings:
        """Returns the settings."""
        return self.now

    def acknowledge(self, settings: PlannerSettings) -> None:
        """Does nothing: batches run in the thread that pauses them."""

    def trouble(self, what: str | None) -> None:
        """Keeps the problem for the caller of the batch."""
        self.problem = what

    def fail(self, error: MillstreamError) -> None:
        """Does nothing: the error is raised in the same process."""


class Batches:
    """The batches of a prepared application.

    Args:
        application: The application. Its checkpoint must be in a local directory.
        records: Greatest number of records of a batch.
        cold: Build every task anew for each batch, as after the loss of its host.
        ticks: Also run batches for the wall clock.
        until: End offsets of input topics up to which they are read; None: no end.
        skipped: End of a batch that was begun and must not be read again.
        clock: The clock from which batch times come.

    Attributes:
        settings: The settings of the planner.
        results: What the tasks and read stages of the last batch did.
        rows: The rows of the read stage of the last batch.
        progress: The last batch, as the supervisor counts it.
    """

    def __init__(
        self,
        application: PreparedApplication,
        *,
        records: int = 1_000_000,
        cold: bool = False,
        ticks: bool = False,
        until: dict[str, list[int]] | None = None,
        skipped: BatchEnd | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.application = application
        self.log = application.log
        self.checkpoint = FileCheckpoint(application.local_checkpoint)
        self._cold = cold
        self._ticks = ticks
        program = application.program
        self._control = Settings(PlannerSettings(records, due=0 if ticks else None, until=until))
        self._planner = Planner(program, self.log, self._control, application.first, skipped=skipped, clock=clock)
        self._reader = Reader(program, self.log)
        self._committer = Committer(program, self.log, application.epoch, application.base)
        self._schedule = TaskSchedule(program.tasks if program.placement.tasks else 0)
        self._warm = WarmTasks()
        self.change(bounds=self._committer.bounds, held=self._committer.held)
        self.results: list[TaskResult] = []
        self.rows: list[Row] = []
        self.progress: Progress | None = None

    @property
    def settings(self) -> PlannerSettings:
        """The settings of the planner."""
        return self._control.now

    @property
    def problem(self) -> str | None:
        """The failure that keeps the planner from planning, if any does."""
        return self._control.problem

    def change(self, **changes: Any) -> None:
        """Changes settings of the planner."""
        self._control.now = msgspec.structs.replace(self._control.now, **changes)

    def run(self, most: int = 10_000) -> int:
        """Runs batches until there is no reason for another; returns how many ran."""
        for count in range(most):
            if not self.batch():
                return count
        raise AssertionError(f"there is no end after {most} batches")

    def batch(self) -> bool:
        """Runs one batch, or the one that was interrupted; returns whether there was one."""
        started = time.perf_counter()
        checkpoint, number = self.checkpoint, self.checkpoint.next_batch
        start = checkpoint.end(number - 1) if number else self._planner.first()
        if not checkpoint.has_end(number):
            planned = self._planner.next(start)
            if planned == start:
                return False
            checkpoint.write_end(number, planned)
        reach(AFTER_OFFSETS)
        end = checkpoint.end(number)
        payloads: list[bytes] = []
        task_inputs: dict[int, list[TaskInput]] = {}
        ranges = self._planner.ranges(start, end)
        self.rows = list(self._reader.read(end.time, ranges, tasks=end.tasks, order=end.order))
        for row in self.rows:
            if row.kind == TASK_INPUT:
                task_inputs.setdefault(row.task, []).append(unpack(row.payload, TaskInput))
            else:
                payloads.append(row.payload)
        state = checkpoint.state(number)
        for task, inputs in task_inputs.items():
            payloads.append(self._run_task(task, inputs, state.setdefault(task, {}), end.time))
        checkpoint.write_state(number + 1, state)
        reach(AFTER_STATE)
        processed = time.perf_counter()
        self.results = self._committer.commit(number, payloads)
        reach(AFTER_PUBLISH)
        checkpoint.commit(number)
        committed = time.perf_counter()
        self.progress = Progress(number, self.results, processed - started, committed - processed, 1)
        changes = self._schedule.changes(self.results)
        if not self._ticks:
            changes |= {"due": None, "asleep": None}
        self.change(bounds=self._committer.bounds, held=self._committer.held, **changes)
        return True

    def states(self) -> TaskStates:
        """The state of each task after the last batch."""
        return self.checkpoint.state(self.checkpoint.next_batch)

    def _run_task(self, task: int, inputs: list[TaskInput], state: dict[bytes, bytes], now: int) -> bytes:
        def fetch(keys: list[bytes]) -> list[bytes | None]:
            return [state.get(key) for key in keys]

        warm = WarmTasks() if self._cold else self._warm
        token = state.get(TOKEN_KEY, b"")
        group = warm.acquire(self.application.program, task, token, fetch, now, all_tasks=False)
        commit = warm.settle(task, group, group.run(inputs, []), now)
        for key in commit.deletes:
            state.pop(key, None)
        state.update(commit.puts)
        return commit.results


class InProcessRun(Batches):
    """Prepares an application and runs its batches; to be closed.

    Args:
        app: The application.
        records: As in `Batches`, and so the others.
        cold: As above.
        ticks: As above.
        clock: As above.
    """

    def __init__(
        self,
        app: ApplicationDefinition,
        *,
        records: int = 1_000_000,
        cold: bool = False,
        ticks: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        application = PreparedApplication(app.topology(), app.config, clock=clock)
        super().__init__(application, records=records, cold=cold, ticks=ticks, clock=clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the lock and the log."""
        self.application.close()
