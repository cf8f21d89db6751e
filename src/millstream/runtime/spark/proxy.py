"""The stateful operator: a proxy between Spark's state and the host that runs a task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from millstream.core.failpoints import declare, reach
from millstream.errors import RunError
from millstream.runtime.batches.control import Control
from millstream.runtime.host.client import connect, exchange, is_stopped
from millstream.runtime.host.crash_recovery import run_traced
from millstream.runtime.host.protocol import Done, Fetch, Fetched, HostMessage, ProgramData, Run
from millstream.runtime.messages import TaskResult, failure_of, pack
from millstream.runtime.read.reader import RESULT
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.state_map import StateMap
from millstream.runtime.spark.worker import begin_task, executor
from millstream.runtime.tasks.warm import TOKEN_KEY
from millstream.runtime.wire import PeerGone

OUTPUT = "payload binary"

BEFORE_WRITES = declare("proxy.before-writes")
AFTER_WRITES = declare("proxy.after-writes")


class TaskProxy(StatefulProcessor):
    """Sends the inputs of a task to its host, and writes the state changes that the host returns to Spark's state.

    Args:
        run: The run of the application that the hosts belong to.
        program: The program.
        hosts: The number of hosts of an executor.
        numbers: The number of each task by its grouping key.
        control: The control file, which reports batches that run again to the driver.
    """

    def __init__(self, run: str, program: ShippedProgram, hosts: int, numbers: dict[int, int], control: Path) -> None:
        self._run = run
        self._program = program
        self._hosts = hosts
        self._numbers = numbers
        self._control = Control(control)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state: one map of bytes."""
        begin_task()
        self._state = StateMap(handle, "state")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Runs one batch of one task."""
        inputs = []
        for row in rows:
            if row.kind == RESULT:
                yield Row(payload=bytes(row.payload))
            else:
                inputs.append(bytes(row.payload))
        if not inputs:  # the read stage failed
            return
        task = self._numbers[key[0]]
        state = self._state
        token = state.get_many([TOKEN_KEY])[0] or b""
        message = self._run_task(Run(self._program.digest, task, token, inputs))
        reach(BEFORE_WRITES)
        state.delete_many(message.deletes)
        state.put_many(message.puts)
        reach(AFTER_WRITES)
        yield Row(payload=message.results)

    def _run_task(self, request: Run) -> Done:
        """Runs a batch in the host of a task; if the host ends, in a process with a call trace."""
        task = request.task
        what = f"task {task}"
        try:
            with contextlib.closing(connect(self._run, executor(), task % self._hosts)) as wire:
                outcome = exchange(wire, request, self._answer)
        except PeerGone:
            if is_stopped(self._run):
                raise  # the query is stopping
            self._control.report_retry(f"{what}: its process ended; running the batch again")
            try:
                outcome = run_traced(what, request, self._answer, self._control.report_retry)
            except RunError as error:
                return Done([], [], pack([TaskResult((1, "", task), failure=failure_of(error))]))
        assert isinstance(outcome, Done)
        return outcome

    def _answer(self, message: HostMessage) -> HostMessage:
        if isinstance(message, Fetch):
            return Fetched(self._state.get_many(message.keys))
        return ProgramData(self._program.open())

    def close(self) -> None:
        """Does nothing: no resource is open."""
