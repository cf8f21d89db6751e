"""Runs an application without Spark, by Spark's own protocol: offsets, state, commit, and again after a crash.

Planner, read stage, task runners and commit are the real ones; what stands in for Spark is the loop, the checkpoint
(files that are written one after the other) and the map in which the state is kept. So what a crash leaves behind can
be tested in milliseconds, at every point where it can happen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import msgspec

from millstream import App
from millstream.core.failpoints import declare, reach
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.control import Control, PlannerSettings
from millstream.runtime.batches.planner import Planner
from millstream.runtime.batches.task_schedule import TaskSchedule
from millstream.runtime.messages import TaskInput, TaskResult, unpack
from millstream.runtime.publish.committer import Committer
from millstream.runtime.read.reader import TASK_INPUT, Reader, Row
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.runtime.tasks.runner import TaskRunner
from millstream.state.paged import MANIFEST_KEY

AFTER_OFFSETS = declare("local.after-offsets")
AFTER_STATE = declare("local.after-state")
AFTER_PUBLISH = declare("local.after-publish")


class LocalRun:
    """An application that runs in this process, batch by batch.

    Args:
        app: The application; its data directory is where everything is kept.
        records: How many records a batch may have.
        cold: Build every task anew for each batch, as after the loss of its host.
        ticks: Run batches when the wall clock is waited for, too.
    """

    def __init__(self, app: App, *, records: int = 1_000_000, cold: bool = False, ticks: bool = False) -> None:
        self.application = PreparedApplication(app)
        self.log = self.application.log
        self._cold = cold
        self._ticks = ticks
        self.directory = Path(self.application.checkpoint)
        self.directory.mkdir(exist_ok=True)
        (self.directory / "metadata").touch()
        control = self.application.directory / "control.json"
        self._control = Control(control)
        self.orders = PlannerSettings(records, due=0 if ticks else None)
        self._control.write(self.orders)
        program = self.application.program
        self._planner = Planner(program, self.log, Control(control), self.application.first)
        self._reader = Reader(program, self.log)
        self._committer = Committer(program, self.log, self.application.epoch, self.application.base)
        self._roster = TaskSchedule(program.tasks if program.placement.tasks else 0)
        self.order(bounds=self._committer.bounds)
        self._runners: dict[int, TaskRunner] = {}
        self.results: list[TaskResult] = []
        self.rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.application.close()

    def order(self, **changes: Any) -> None:
        self.orders = msgspec.structs.replace(self.orders, **changes)
        self._control.write(self.orders)

    def run(self, most: int = 10_000) -> int:
        """Runs batches until there is nothing to do; returns how many."""
        for count in range(most):
            if not self.batch():
                return count
        raise AssertionError(f"there is no end after {most} batches")

    def batch(self) -> bool:
        """Runs one batch, the one that was interrupted first; returns whether there was one."""
        number = self._last("commits") + 1
        start = self._end(number - 1) if number else self._planner.first()
        if self._last("offsets") < number:
            end = self._planner.next(start)
            if end == start:
                return False
            self._write("offsets", number, end.to_json().encode())
        reach(AFTER_OFFSETS)
        end = self._end(number)
        payloads: list[bytes] = []
        deliveries: dict[int, list[TaskInput]] = {}
        self.rows = list(self._reader.read(end.time, self._planner.ranges(start, end), tasks=end.tasks))
        for row in self.rows:
            if row.kind == TASK_INPUT:
                deliveries.setdefault(row.task, []).append(unpack(row.payload, TaskInput))
            else:
                payloads.append(row.payload)
        state = self._state(number)
        for task, given in deliveries.items():
            payloads.append(self._run_task(task, given, state.setdefault(task, {}), end.time))
        self._write("state", number + 1, msgspec.msgpack.encode(state))
        reach(AFTER_STATE)
        self.results = self._committer.commit(number, payloads)
        reach(AFTER_PUBLISH)
        self._write("commits", number, b"")
        orders = self._roster.orders(self.results)
        if not self._ticks:
            orders |= {"due": None, "asleep": None}
        self.order(bounds=self._committer.bounds, **orders)
        for old in (self.directory / "state").glob("*"):
            if int(old.name) < number:
                old.unlink()
        return True

    def _run_task(self, task: int, given: list[TaskInput], state: dict[bytes, bytes], now: int) -> bytes:
        def fetch(keys: list[bytes]) -> list[bytes | None]:
            return [state.get(key) for key in keys]

        runner = self._runners.get(task)
        if runner is None or self._cold:
            runner = self._runners[task] = TaskRunner(
                self.application.program, task, fetch, state.get(MANIFEST_KEY), now
            )
        runner.fetch = fetch
        batch = runner.run(given, [])
        for key in batch.deletes:
            state.pop(key, None)
        state.update(batch.puts)
        return batch.results

    # ----- the checkpoint --------------------------------------------------------------------------------------

    def _last(self, kind: str) -> int:
        folder = self.directory / kind
        return max((int(path.name) for path in folder.glob("[0-9]*") if "." not in path.name), default=-1)

    def _end(self, number: int) -> BatchEnd:
        return BatchEnd.from_json((self.directory / "offsets" / str(number)).read_bytes())

    def states(self) -> dict[int, dict[bytes, bytes]]:
        """The state of each task after the last batch."""
        return self._state(self._last("commits") + 1)

    def _state(self, number: int) -> dict[int, dict[bytes, bytes]]:
        path = self.directory / "state" / str(number)
        if not path.exists():
            return {}
        return msgspec.msgpack.decode(path.read_bytes(), type=dict[int, dict[bytes, bytes]])

    def _write(self, kind: str, number: int, data: bytes) -> None:
        folder = self.directory / kind
        folder.mkdir(exist_ok=True)
        part = folder / f"{number}.part"
        part.write_bytes(data)
        part.replace(folder / str(number))
