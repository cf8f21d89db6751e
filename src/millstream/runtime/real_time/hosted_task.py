"""A task in its worker: its state is restored first, then it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from millstream.log.api import Log
from millstream.runtime.real_time.task import Layout, RealTimeTask, specs_of
from millstream.runtime.real_time.task_record import TaskRecord, last_record
from millstream.runtime.real_time.task_state import TaskState
from millstream.stages import Topology
from millstream.stages.task_id import TaskId
from millstream.state.spec import ChangelogRecord, StoreSpec

_RESTORED_AT_ONCE = 1 << 20
"""Bytes of a changelog that are applied between two looks at the other tasks."""


class Restoration(NamedTuple):
    """The progress of the restoration of a task: records applied, and in all."""

    applied: int
    total: int


class Shared(NamedTuple):
    """The objects that the tasks of a worker share.

    Attributes:
        layout: The common data of all tasks of the application.
        log: The log.
        directory: The directory of local page stores; None: there are none.
        global_stores: The stores of global tables, by name.
        memory_limit: The approximate bytes of the rows of one task in memory.
        identity: The id of the application's state.
    """

    layout: Layout
    log: Log
    directory: Path | None
    global_stores: dict[str, Any]
    memory_limit: int
    identity: str


class HostedTask:
    """A task of a worker.

    Args:
        id: The task's id.
        slot: Its partition in the topic of task records.
        topology: The task's sub-topology.
        shared: What it shares with the other tasks of the worker.

    Attributes:
        name: Its name in messages.
        state: Its stores.
        running: The task, once its state is restored.
    """

    def __init__(
        self,
        id: TaskId,
        slot: int,
        topology: Topology,
        shared: Shared,
    ) -> None:
        layout, log, directory, global_stores, memory_limit, identity = shared
        self.id = id
        self.name = f"task {id}"
        self.slot = slot
        self._topology = topology
        self._layout = layout
        self._log = log
        self._globals = global_stores
        self.running: RealTimeTask | None = None
        self.specs: dict[str, StoreSpec] = {spec.name: spec for spec in specs_of(topology)}
        self._record: TaskRecord | None = None
        self.state = TaskState(
            layout.program.topology.application_id,
            str(id),
            list(self.specs.values()),
            None if directory is None or not self.specs else directory / f"{id}.db",
            memory_limit=memory_limit,
            identity=identity.encode(),
        )

    def restore(self) -> Iterator[Restoration]:
        """Reads the task record, and restores the stores from the local page store and the changelogs, step by step.

        An earlier instance of the worker must be fenced by then: before, it may publish another task record.
        """
        record = last_record(self._log, self._layout.program.topology.application_id, self.slot)
        assert record is not None, self.id  # the driver has written the first one
        self._record = record
        topics = {self.state.changelog_of(spec): spec for spec in self.specs.values()}
        starts, ends = self._log.starts(topics), self._log.ends(topics, committed=False)
        number = self.id.partition
        self.state.check({topic: row[number] for topic, row in ends.items()})
        self.state.resume(record.store_cells)
        places = {
            topic: (max(self.state.tags.get(topic, 0), starts[topic][number]), ends[topic][number]) for topic in topics
        }
        total = sum(end - start for start, end in places.values())
        applied = 0
        for topic, (start, end) in places.items():
            position = start
            while position < end:
                table = self._log.read(topic, number, position, end, max_bytes=_RESTORED_AT_ONCE)
                if not len(table):
                    break
                columns = (table[name].to_pylist() for name in ("key", "value", "timestamp"))
                self.state.restore(topic, map(ChangelogRecord, *columns))
                last = table["offset"][-1].as_py() + 1
                applied += last - position
                position = last
                yield Restoration(applied, total)

    def begin(self, now: int) -> RealTimeTask:
        """Creates the task, whose stores are restored."""
        assert self._record is not None, self.id
        self.running = RealTimeTask(self.id, self._topology, self._layout, self._record, self._open, now)
        return self.running

    def _open(self, spec: StoreSpec) -> Any:
        if spec.name in self._globals:
            return self._globals[spec.name]
        return self.state.open(spec)

    def close(self) -> None:
        """Closes the processors and the local page store."""
        try:
            if self.running is not None:
                self.running.task.close()
        finally:
            self.state.close()
