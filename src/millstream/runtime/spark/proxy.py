"""The stateful operator: a thin proxy between Spark's state and the host in which a task runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from millstream.failpoints import declare, reach
from millstream.runtime.host.client import connect
from millstream.runtime.host.server import TOKEN_KEY
from millstream.runtime.messages import Done, Fetch, Fetched, NeedProgram, ProgramData, Run
from millstream.runtime.reading import RESULT
from millstream.runtime.spark.parcel import Parcel
from millstream.runtime.spark.state_map import StateMap
from millstream.runtime.spark.worker import begin_task, executor

OUTPUT = "payload binary"

BEFORE_WRITES = declare("proxy.before-writes")
AFTER_WRITES = declare("proxy.after-writes")


class TaskProxy(StatefulProcessor):
    """Passes the deliveries of a task to its host, and what the host wants kept to Spark's state.

    Args:
        run: The run of the application, which hosts belong to.
        program: The program.
        hosts: How many hosts an executor has.
        numbers: The number of each task by its grouping key.
    """

    def __init__(self, run: str, program: Parcel, hosts: int, numbers: dict[int, int]) -> None:
        self._run = run
        self._program = program
        self._hosts = hosts
        self._numbers = numbers

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state: one map of bytes to bytes."""
        begin_task()
        self._state = StateMap(handle, "state")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Runs one batch of one task."""
        deliveries = []
        for row in rows:
            if row.kind == RESULT:
                yield Row(payload=bytes(row.payload))
            else:
                deliveries.append(bytes(row.payload))
        if not deliveries:  # where records are read, something failed
            return
        task = self._numbers[key[0]]
        state = self._state
        token = state.get_many([TOKEN_KEY])[0] or b""
        wire = connect(self._run, executor(), task % self._hosts)
        try:
            wire.send(Run(self._program.digest, task, token, deliveries))
            while True:
                message = wire.receive()
                if isinstance(message, Fetch):
                    wire.send(Fetched(state.get_many(message.keys)))
                elif isinstance(message, NeedProgram):
                    wire.send(ProgramData(self._program.open()))
                else:
                    break
        finally:
            wire.close()
        assert isinstance(message, Done)
        reach(BEFORE_WRITES)
        state.delete_many(message.deletes)
        state.put_many(message.puts)
        reach(AFTER_WRITES)
        yield Row(payload=message.written)

    def close(self) -> None:
        """Nothing is open."""
