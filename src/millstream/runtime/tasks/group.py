"""The tasks of one partition number, which share one state: the unit that a micro-batch schedules and commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from millstream.engine.call_trace import installed_trace
from millstream.errors import MillstreamError
from millstream.runtime.messages import (
    InputSlice,
    OutputBlock,
    StoreChange,
    StreamTime,
    TaskInput,
    TaskResult,
    failure_of,
    pack,
    process_figures,
)
from millstream.runtime.order.batch_order import NO_ORDER
from millstream.runtime.output_blocks import block, blocks_of
from millstream.runtime.program.program import Program
from millstream.runtime.read.columns import columns_of
from millstream.runtime.tasks.memory import cells_of, decode_cells, decode_memory, encode_cells, encode_memory, merged
from millstream.runtime.tasks.runner import TaskRunner, records_by_input, records_of
from millstream.serde.key_layouts import split_session_key, split_store_window_key
from millstream.stages.exchange_graph import exchange_graph
from millstream.stages.task_id import TaskId
from millstream.state.paged import PagedState
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec

FetchValues = Callable[[list[bytes]], list[bytes | None]]


class GroupCommit(NamedTuple):
    """The outcome of a batch.

    Attributes:
        puts: Entries to write to the state.
        deletes: Keys to delete from it.
        results: A packed list of one `TaskResult`, for the commit.
        failed: The batch failed; the group must not be used again.
    """

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    results: bytes
    failed: bool = False


class TaskGroup:
    """The tasks of one partition number: one for each sub-topology that has state.

    The tasks share one `PagedState`, because Spark keeps one state per group. They share no rows, except those of
    global tables.

    Args:
        program: The application.
        number: The partition number.
        fetch: Reads values of Spark's state.
        manifest: The manifest of the state; None for a new group.
        now: The time of the batch.
        memory_limit: The approximate size of the state in memory; by default the limit of a whole host.
    """

    def __init__(
        self,
        program: Program,
        number: int,
        fetch: FetchValues,
        manifest: bytes | None,
        now: int,
        memory_limit: int | None = None,
    ) -> None:
        self._program = program
        self._number = number
        self.fetch = fetch
        self.state = PagedState(self._fetch, memory_limit=memory_limit or program.config["host.memory.max.bytes"])
        topologies = program.placement.tasks
        memory = self.state.load(manifest)
        stored = [] if memory is None else decode_memory(memory)
        cells = merged(task.cells for task in stored)
        if memory is None and number in program.cells:
            cells = decode_cells(program.cells[number])
        self._tasks: list[TaskRunner] = []
        self._graph = exchange_graph(program.placement)
        reported: set[str] = set()
        for topology in topologies:
            index = topology.parts[0].index if topology.parts else len(program.topology.parts)
            own = cells_of(cells, topology, topologies)
            task = TaskRunner(TaskId(index, number), topology, program, own, now, self.state.open, self._graph)
            # Several tasks have the rows of a global table: the first task of the first group reports its records.
            tables = {table.name for table in topology.global_tables}
            task.task.context.silent = frozenset(tables & reported if number == 0 else tables)
            reported |= tables
            self._tasks.append(task)
        self._readers: dict[str, list[TaskRunner]] = {}
        for stored_task in stored:
            for part in stored_task.waiting:
                self._receive(part, part.batch)
            for task in self._tasks:
                task.resume(stored_task)
        for topology in topologies:
            for spec in topology.stores:
                self.state.open(spec)  # including stores that a processor opens later
        self._specs: dict[str, StoreSpec] = {
            spec.name: spec for topology in topologies for node in topology.plan.nodes for spec in node.stores
        }
        # Global tables are the same in all groups: the first group reports them.
        shared = {table.store.name for table in program.topology.global_tables} if number else set()
        self._owned = self._specs.keys() - shared
        self._published = {
            name
            for name in self._owned
            if program.changelog_of(self._specs[name]) is not None or program.has_view(self._specs[name])
        }
        self._views_announced = False

    def run(self, inputs: Sequence[TaskInput], printed: list[str]) -> GroupCommit:
        """Runs a batch. After an error the group must not be used again.

        Args:
            inputs: The inputs from the read stages.
            printed: Lines that user functions print, for the result.
        """
        started = time.perf_counter()
        try:
            result = self._run(inputs)
            trace = installed_trace()
            if trace is not None:
                trace.enter_step("keeping the state")
            changes = self.state.changes(self._published)
            began = time.perf_counter()
            writes = self.state.commit(encode_memory({task.id: task.memory() for task in self._tasks}))
            checkpoint = time.perf_counter() - began
        except MillstreamError as error:
            failed = TaskResult(self._origin, printed=printed, failure=failure_of(error))
            return GroupCommit([], [], pack([failed]), failed=True)
        if any(task_input.restores for task_input in inputs):
            changes = {}  # changelogs and views already have the restored rows
        sizes = self.state.sizes()
        figures = {f"state.{name}": float(value) for name, value in self.state.figures(sizes).items()}
        written = sum(len(data) for _key, data in writes.puts)
        figures |= {"checkpoint.seconds": checkpoint, "checkpoint.bytes": float(written), **process_figures()}
        result = msgspec.structs.replace(
            result,
            blocks=result.blocks + self._changelogs(changes),
            changes=self._views(changes),
            cells=encode_cells(task.cells() for task in self._tasks),
            printed=printed,
            stores={name: size if name in self._owned else size._replace(rows=0) for name, size in sizes.items()},
            figures={"engine": time.perf_counter() - started, **figures},
        )
        return GroupCommit(writes.puts, writes.deletes, pack([result]))

    def _fetch(self, keys: list[bytes]) -> list[bytes | None]:
        """Reads values over the connection of the current batch."""
        return self.fetch(keys)

    @property
    def _origin(self) -> tuple[int, str, int]:
        return (1, "", self._number)

    def _run(self, inputs: Sequence[TaskInput]) -> TaskResult:
        now = max((task_input.now for task_input in inputs), default=0)
        order = max((task_input.order for task_input in inputs), key=lambda order: order.sequence, default=NO_ORDER)
        for part in (part for task_input in inputs for part in task_input.slices):
            self._receive(part, order.sequence - self._graph.delays.get(part.topic, 0))
        bounds = [bound for task_input in inputs for bound in task_input.bounds]
        for part in (part for task_input in inputs for part in task_input.restores):
            self._restore(part)
        rows = [part for task_input in inputs for part in task_input.globals]
        blocks: list[OutputBlock] = []
        for task in self._tasks:
            task.begin(now, order)
            task.apply_globals(rows)
            blocks += self._blocks(task)
        for task in self._tasks:
            task.run(bounds, now)
            blocks += self._blocks(task)
        return TaskResult(
            self._origin,
            blocks=blocks,
            drops=[drop for task in self._tasks for drop in task.drops()],
            tasks=[task.progress() for task in self._tasks],
            times=[
                StreamTime(task.id.subtopology, task.id.partition, task.task.stream_time)
                for task in self._tasks
                if task.task.stream_time >= 0
            ],
        )

    def _blocks(self, task: TaskRunner) -> Iterator[OutputBlock]:
        outputs, origins = task.take_outputs()
        return blocks_of(outputs, self._program.counts.get, self._number, origins)

    def _reading(self, topic: str) -> list[TaskRunner]:
        """The tasks that read a topic."""
        readers = self._readers.get(topic)
        if readers is None:
            readers = self._readers[topic] = [task for task in self._tasks if task.reads(topic)]
        return readers

    def _receive(self, part: InputSlice, batch: int) -> None:
        """Adds a slice to the buffers of the tasks that read its topic; see `TaskRunner.receive`."""
        readers = self._reading(part.topic)
        for key, records in records_by_input(part) if readers else ():
            for reader in readers:
                reader.receive(key, records, batch)

    # ----- stores ----------------------------------------------------------------------------------------------

    def _restore(self, part: InputSlice) -> None:
        """Puts the records of a changelog into their store."""
        spec = self._specs[self._program.restores[part.topic]]
        store: Any = self.state.open(spec)
        key_in, value_in = spec.key.deserialize, spec.value.deserialize
        for _offset, timestamp, data, value, _headers in zip(*columns_of(records_of(part)), strict=False):
            assert data is not None
            row = None if value is None else value_in(value)
            row = (row, timestamp) if spec.timestamped and row is not None else row
            if spec.kind == "key-value":
                store.put(key_in(data), row)
            elif spec.kind == "window":
                key, start, _sequence = split_store_window_key(data)
                store.put(key_in(key), start, row)
            elif spec.kind == "session":
                key, start, end = split_session_key(data)
                store.put(key_in(key), start, end, row)
            else:
                store.put(key_in(data), row, timestamp)

    def _changelogs(self, changes: dict[str, list[ChangelogRecord]]) -> list[OutputBlock]:
        contexts = [task.task.context for task in self._tasks]
        latest = max((context.stream_time for context in contexts), default=-1)
        if latest < 0:  # only rows of global tables so far
            latest = max((context.now for context in contexts), default=0)
        blocks = []
        for name, records in changes.items():
            topic = self._program.changelog_of(self._specs[name])
            if topic is None:
                continue
            keys, values, timestamps = _columns(records)
            times = [latest if time == NO_TIMESTAMP else time for time in timestamps]
            blocks.append(block(topic, self._number, times, keys, values, None))
        return blocks

    def _views(self, changes: dict[str, list[ChangelogRecord]]) -> list[StoreChange]:
        """The changes of stores with a view; in the first batch also unchanged stores, so that all views exist."""
        names = changes if self._views_announced else self._published
        self._views_announced = True
        view_changes = []
        for name in names:
            if self._program.has_view(self._specs[name]):
                records = changes.get(name, [])
                time = self.state.open(self._specs[name]).time
                view_changes.append(StoreChange(name, self._number, *_columns(records), time))
        return view_changes


def _columns(records: list[ChangelogRecord]) -> tuple[list[bytes], list[bytes | None], list[int]]:
    """Records by column; for many records several times as fast as ``zip(*records)``."""
    return [record[0] for record in records], [record[1] for record in records], [record[2] for record in records]
