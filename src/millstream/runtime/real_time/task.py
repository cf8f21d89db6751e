"""A task of real-time execution: takes records of its inputs in order, and collects what a publication needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from millstream.engine import Task
from millstream.engine.context import OutputBatch
from millstream.engine.queues import Columns, Queue
from millstream.engine.record_times import record_time
from millstream.plan.stateless import Repartition
from millstream.runtime.messages import Drop
from millstream.runtime.order.positions import LEAST, NONE, Position, ordinal, time_of
from millstream.runtime.output_blocks import Origins
from millstream.runtime.program.program import Program
from millstream.runtime.read.columns import finder
from millstream.runtime.read.range_reader import LOST
from millstream.runtime.real_time.buffers import Buffer
from millstream.runtime.real_time.task_inputs import UNREAD, DirectInput, InputKey, InternalInput, merged_senders
from millstream.runtime.real_time.task_record import TaskRecord
from millstream.runtime.tasks.memory import cells_of, saved_cells, task_name
from millstream.runtime.tasks.ordering import Input, merge
from millstream.stages import Topology
from millstream.stages.exchange_graph import ExchangeGraph
from millstream.stages.task_id import TaskId
from millstream.state.spec import StoreSpec

NO_RECORDS = Columns([], [], [], [], repeat(()))

_MOST_WAITING = 100_000
"""The number of buffered records of internal topics above which their writers wait for the task."""


class TaskOutputs(NamedTuple):
    """The outputs of one call of the engine, and their origins."""

    outputs: list[Any]
    origins: Origins


class _Reach(NamedTuple):
    """How far a task goes: below a limit (None: there is none), and through a position in any case."""

    limit: Position | None
    through: Position | None


class Layout(NamedTuple):
    """The common data of the tasks of an application.

    Attributes:
        program: The application.
        graph: The internal topics between the sub-topologies.
        topics: The input topics of the application: see `Assignment.topics`.
    """

    program: Program
    graph: ExchangeGraph
    topics: list[str]


class RealTimeTask:
    """One task of an application, with the buffers of its inputs.

    Args:
        id: The task's id.
        topology: The task's sub-topology.
        layout: What it has in common with the other tasks.
        record: Its last task record.
        open_store: Opens the task's stores.
        now: The wall-clock time.

    Attributes:
        task: The engine's task.
    """

    def __init__(
        self,
        id: TaskId,
        topology: Topology,
        layout: Layout,
        record: TaskRecord,
        open_store: Callable[[StoreSpec], Any],
        now: int,
    ) -> None:
        program, graph, self._topics = layout
        self.id = id
        self._name = task_name(topology)
        own = cells_of(record.cells, topology, program.placement.tasks)
        self.task = Task(topology, program.config, id.partition, now=now, state=({}, own), open_store=open_store)
        if topology.parts[0].is_split_off:
            self.task.context.silent = frozenset(node.name for node in program.placement.shared)
        self.task.context.partition_counts = lambda topic: program.counts.get(topic, 1)
        self.task.context.largest = program.log.largest
        self._graph = graph
        self._ranks = {topology.topic_of(node): rank for rank, node in enumerate(topology.plan.of_type(Repartition), 1)}
        self._exchanges = {topic for topic, writer in graph.writers.items() if writer == id.subtopology}
        self._direct: dict[InputKey, DirectInput] = {}
        self._internal: dict[InputKey, InternalInput] = {}
        self._record = record
        for topic, partition, offset in record.offsets:
            self.follow(topic, partition, offset)
        self._last = record.position
        self._limit: Position | None = LEAST if self.waits_upstream else None
        self._released = 0
        self.last_level = graph.last_level(graph.components.get(id.subtopology, id.subtopology))
        """The greatest level of the topics inside the task's cycle: see `ExchangeGraph.levels`."""
        self._limits_inside: list[Position | None] = [LEAST] * self.last_level
        self._released_inside = [0] * self.last_level
        self.pace: Position | None = None
        """The task takes no records after this position for now: its readers have many to take."""
        self._dropped: dict[tuple[str, str], int] = {}
        self._taken: Counter[str] = Counter()
        self._outputs: list[TaskOutputs] = []
        self.produced = 0
        """The number of outputs since the last call of `take_outputs`."""
        self._reported: Position | None = None
        self.is_dirty = True
        """The task has taken records or called punctuators since its last record; also before the first one."""

    # ----- inputs ----------------------------------------------------------------------------------------------

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Adds an input, unless the task does not read the topic or has the input already."""
        key = (topic, partition)
        queue = self.task.queue(topic)
        if queue is None or key in self._direct or key in self._internal:
            return
        if topic in self._graph.readers:
            taken = {sender: end for name, number, sender, end in self._record.taken if (name, number) == key}
            self._internal[key] = InternalInput(offset, taken)
            return
        times = {(name, number): time for name, number, time in self._record.times}
        number = ordinal(self._topics.index(topic), partition)
        self._direct[key] = DirectInput(number, offset, times.get(key, UNREAD), record_time(queue.node))

    @property
    def is_ordered(self) -> bool:
        """Whether the records of the task need order positions."""
        return len(self._direct) > 1 or bool(self._internal) or bool(self._exchanges)

    @property
    def waits_upstream(self) -> bool:
        """Whether the task may have to wait for records of other sub-topologies."""
        return any(not self._graph.is_inside(topic) for topic, _partition in self._internal)

    @property
    def inputs(self) -> dict[InputKey, int]:
        """The inputs, and the offset after the last record that was read of each."""
        return {key: each.next for part in (self._direct, self._internal) for key, each in part.items()}

    @property
    def direct(self) -> Iterable[InputKey]:
        """The partitions of input topics."""
        return self._direct.keys()

    @property
    def internal(self) -> Iterable[InputKey]:
        """The partitions of internal topics."""
        return self._internal.keys()

    def next_offset(self, key: InputKey) -> int:
        """The offset after everything that was read of an input."""
        return (self._direct.get(key) or self._internal[key]).next

    def level(self, key: InputKey) -> int:
        """The level of an input that the task's own component writes; 0 of all other inputs."""
        return self._graph.level(key[0])

    def receive(self, key: InputKey, columns: Columns, next_offset: int, request: int) -> None:
        """Buffers records of an input.

        Args:
            key: The input.
            columns: The records.
            next_offset: The offset after everything that was read.
            request: The first request for a round that covers the records.
        """
        source = self._direct.get(key)
        if source is None:
            internal = self._internal[key]
            internal.next = next_offset
            if columns.offsets:
                internal.receive(columns, request)
            return
        source.next = next_offset
        if not columns.offsets:
            return
        if self.is_ordered:
            source.receive(columns, request)
        else:
            source.buffer.add(columns, None, request)

    def lose(self, key: InputKey, first: int, request: int) -> None:
        """Skips records of an input topic that were deleted before they were read, and counts them as dropped.

        Args:
            key: The input.
            first: The offset of the first record that remains.
            request: As in `receive`.
        """
        dropped, where = self.task.context.dropped, (key[0], LOST)
        dropped[where] = dropped.get(where, 0) + first - self.next_offset(key)
        self.is_dirty = True
        self.receive(key, NO_RECORDS, first, request)

    def buffered(self, key: InputKey) -> int:
        """The number of buffered records of an input."""
        source = self._direct.get(key)
        if source is not None:
            return source.buffer.count
        return sum(buffer.count for buffer in self._internal[key].senders.values())

    @property
    def waiting(self) -> int:
        """The number of records that the task has read and not taken."""
        return sum(map(self.buffered, (*self._direct, *self._internal)))

    def taken(self, key: InputKey) -> int:
        """The offset before which all records of an input were taken."""
        source = self._direct.get(key)
        if source is None:
            return self._internal[key].first_untaken
        first = source.buffer.first_offset
        return source.next if first is None else first

    def _buffers(self, level: int) -> Iterator[Buffer]:
        """Yields the buffers of inputs of a level."""
        if not level:
            yield from (source.buffer for source in self._direct.values())
        for key, internal in self._internal.items():
            if self.level(key) == level:
                yield from internal.senders.values()

    # ----- order -----------------------------------------------------------------------------------------------

    def allow(self, limit: Position | None, released: int) -> None:
        """Sets how far the task may go, as far as the sub-topologies upstream are concerned.

        Args:
            limit: The position below which records are taken; None: there is no limit.
            released: The last request for a round that was fulfilled. The records that it covers, and those before them
                in the order, are taken whatever the limit is.
        """
        self._limit = limit
        self._released = max(self._released, released)

    def allow_inside(self, level: int, limit: Position | None, released: int) -> None:
        """Sets how far the task may go in the topics of a level inside a cycle; as `allow`."""
        self._limits_inside[level - 1] = limit
        self._released_inside[level - 1] = max(self._released_inside[level - 1], released)

    def pending(self, has_more: Mapping[InputKey, bool]) -> Position | None:
        """The least order position that the task may still process; unread records of internal topics are left out.

        Args:
            has_more: The inputs of which the log has more records than were read.
        """
        positions = self.held(has_more)
        self._reported = min((position for position in positions if position is not None), default=None)
        return self._reported

    def held(self, has_more: Mapping[InputKey, bool]) -> list[Position | None]:
        """As `pending`, by level: that of inputs from outside the task's cycle, then of the topics of each level."""
        bounds = [source.bound for key, source in self._direct.items() if has_more.get(key)]
        heads = [
            [head for buffer in self._buffers(level) if (head := buffer.head) is not None]
            for level in range(self.last_level + 1)
        ]
        heads[0] += bounds
        return [min(each, default=None) for each in heads]

    @property
    def pace_of_writers(self) -> Position | None:
        """The position after which the writers of internal topics take nothing for now; None without many records."""
        buffers = [
            buffer
            for key, internal in self._internal.items()
            if not self.level(key)
            for buffer in internal.senders.values()
        ]
        if sum(buffer.count for buffer in buffers) <= _MOST_WAITING:
            return None
        return max(buffers, key=lambda buffer: buffer.count).middle

    def run(self, now: int, has_more: Mapping[InputKey, bool]) -> int:
        """Takes buffered records, as far as the order allows; returns their number.

        Args:
            now: The wall-clock time.
            has_more: The inputs of which the log has more records than were read.
        """
        if not self.waiting:
            return 0
        self.task.context.now = now
        if not self.is_ordered:
            return self._take_unordered()
        bounds = [source.bound for key, source in self._direct.items() if has_more.get(key)]
        limit = min([*bounds, *([] if self._limit is None else [self._limit])], default=None)
        covered = _covered(self._buffers(0), limit, self._released)
        if self.pace is not None and (limit is None or self.pace < limit):
            limit, covered = self.pace, max(self.pace, covered or LEAST)
        inside = zip(self._limits_inside, self._released_inside, strict=True)
        reaches = [
            _Reach(each, _covered(self._buffers(level), each, released))
            for level, (each, released) in enumerate(inside, 1)
        ]
        return self._take([_Reach(limit, covered), *reaches])

    def _take_unordered(self) -> int:
        """Takes the records of the only input."""
        ((key, source),) = self._direct.items()
        columns, _positions = source.buffer.take(source.buffer.count)
        source.taken = source.next
        self._process([(key, columns)], None, NONE)
        return len(columns.offsets)

    def _take(self, reaches: list[_Reach]) -> int:
        """Takes records, as far as the reach of the level of each input goes; returns their number."""
        taken: list[tuple[InputKey, Columns, Any]] = []
        for key, source in self._direct.items():
            count = source.buffer.count_below(*reaches[0])
            if count:
                columns, at = source.buffer.take(count)
                source.taken_time = time_of(at[-1].item())
                taken.append((key, columns, at))
        for key, internal in self._internal.items():
            reach = reaches[self.level(key)]
            parts: list[tuple[Columns, Any]] = []
            for sender, buffer in sorted(internal.senders.items()):
                count = buffer.count_below(*reach)
                if count:
                    columns, at = buffer.take(count)
                    internal.taken[sender] = columns.offsets[-1] + 1
                    parts.append((columns, at))
            if parts:
                taken.append((key, *merged_senders(parts)))
        if not taken:
            return 0
        taken.sort(key=lambda each: (self._ranks.get(each[0][0], 0), each[0]))
        exchanges = {key[0] for key, _columns, _at in taken if key[0] in self._ranks}
        merged = merge([self._input(key, columns, at, exchanges) for key, columns, at in taken], None)
        self._process([(key, columns) for key, columns, _at in taken], merged.order, merged.positions())
        if merged.last is not None:
            self._last = max(self._last, merged.last)
        return sum(merged.counts)

    def _input(self, key: InputKey, columns: Columns, at: Any, exchanges: set[str]) -> Input:
        several = len(exchanges) > 1 and key[0] in exchanges
        source = self._direct.get(key)
        return Input(
            at,
            timestamps=np.array(columns.timestamps, np.int64) if several else None,
            ordinal=None if source is None else source.number,
        )

    def _process(self, inputs: list[tuple[InputKey, Columns]], order: list[int] | None, at: Any) -> None:
        queues: list[tuple[Queue, Columns]] = []
        for key, columns in inputs:
            queue = self.task.input(*key)
            queue.find = finder(columns)
            if queue.node.name not in self.task.context.silent:
                self._taken[queue.node.name] += len(columns.offsets)
            queues.append((queue, columns))
        self.is_dirty = True
        self.task.take(queues, order)
        self._collect(at)

    def _collect(self, at: Any) -> None:
        outputs = self.task.take_outputs()
        if outputs:
            least = max(self._last, self._limit or LEAST, self._reported or LEAST)
            self._outputs.append(TaskOutputs(outputs, Origins(self._exchanges, at, least)))
            self.produced += sum(len(each.keys) if type(each) is OutputBatch else 1 for each in outputs)

    # ----- time ------------------------------------------------------------------------------------------------

    def due(self) -> int | None:
        """The wall-clock time at which a punctuator or an idle stream clock is due; None without any."""
        punctuators = self.task.context.punctuators
        if not punctuators.any("wall"):
            return None
        times = [time for time in (punctuators.due(), punctuators.asleep()) if time is not None]
        return min(times, default=None)

    def advance(self, now: int, *, is_quiet: bool) -> None:
        """Calls the wall-clock punctuators that are due.

        Args:
            now: The wall-clock time.
            is_quiet: The task has taken all records in the log.
        """
        due = self.due()
        if due is None or now < due:
            return
        self.task.advance_wall_clock(now, is_quiet=is_quiet)
        self.is_dirty = True
        self._collect(NONE)

    # ----- publication -----------------------------------------------------------------------------------------

    def take_outputs(self) -> list[TaskOutputs]:
        """Returns the outputs since the last call."""
        outputs, self._outputs, self.produced = self._outputs, [], 0
        return outputs

    def take_counts(self) -> tuple[list[Drop], dict[str, int]]:
        """Returns the numbers of records dropped and taken since the last call, by operator."""
        dropped = dict(self.task.context.dropped)
        drops = [
            Drop(*where, count - self._dropped.get(where, 0))
            for where, count in dropped.items()
            if count > self._dropped.get(where, 0)
        ]
        self._dropped = dropped
        taken, self._taken = dict(self._taken), Counter()
        return drops, taken

    def record(self, store_cells: Mapping[str, Any], *, claims: bool = False) -> TaskRecord:
        """The task record of now.

        Args:
            store_cells: The cells of the stores, besides those of the engine's task.
            claims: The offsets are those behind the buffered records, as if these were taken.
        """
        self.is_dirty = False
        cells = self.task.cells()
        return TaskRecord(
            self._name,
            self.id.partition,
            [(*key, offset if claims else self.taken(key)) for key, offset in self.inputs.items()],
            [(*key, *taken) for key, each in self._internal.items() if not claims for taken in each.offsets()],
            [(*key, each.time if claims else each.taken_time) for key, each in self._direct.items() if self.is_ordered],
            saved_cells(cells, self._name),
            self._last,
            {name: value for name, value in cells.items() if name.startswith("store.")} | dict(store_cells),
        )


def _covered(buffers: Iterable[Buffer], limit: Position | None, released: int) -> Position | None:
    """The last position that a request for a round covers which was fulfilled; None without a limit."""
    if limit is None or not released:
        return None
    return max((last for buffer in buffers if (last := buffer.last_covered(released)) is not None), default=None)


def specs_of(topology: Topology) -> list[StoreSpec]:
    """The stores of a task, without those of global tables."""
    tables = {table.store.name for table in topology.global_tables}
    return [spec for spec in topology.stores if spec.name not in tables]
