"""Runs one task: buffers its inputs, merges them in order, and lets the engine take the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa

from millstream.engine import InputRecord, Task
from millstream.engine.queues import Columns, Queue
from millstream.log.arrays import to_numbers
from millstream.plan.stateless import Repartition
from millstream.runtime.messages import INPUT_SCHEMA, Drop, InputBound, InputSlice, TaskProgress
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.order.positions import LEAST, NONE, Position, from_arrow, ordinal_of
from millstream.runtime.output_blocks import Origins
from millstream.runtime.program.program import Program
from millstream.runtime.read.columns import columns_of, finder
from millstream.runtime.tasks.memory import Cells, TaskMemory, saved_cells, task_name
from millstream.runtime.tasks.ordering import Input, merge
from millstream.stages import Topology
from millstream.stages.exchange_graph import ExchangeGraph
from millstream.stages.task_id import TaskId
from millstream.state.spec import StoreSpec

InputKey = tuple[str, int]
"""An input of a task: topic and partition."""


class TaskRunner:
    """One task of an application: the engine's task, its inputs, its offsets and its cells.

    Args:
        id: The task's id.
        topology: The task's sub-topology.
        program: The application.
        cells: The task's cells, as `cells_of` gives them.
        now: The time of the batch.
        open_store: Opens the task's stores.
        graph: The internal topics between the sub-topologies.

    Attributes:
        task: The engine's task.
        offsets: The next offset to take of each input, as far as the task has taken records of it.
    """

    def __init__(
        self,
        id: TaskId,
        topology: Topology,
        program: Program,
        cells: Cells,
        now: int,
        open_store: Callable[[StoreSpec], Any],
        graph: ExchangeGraph,
    ) -> None:
        self.id = id
        self.task = Task(topology, program.config, id.partition, now=now, state=({}, cells), open_store=open_store)
        self.task.context.partition_counts = lambda topic: program.counts.get(topic, 1)
        self.task.context.largest = program.log.largest
        self.offsets: dict[InputKey, int] = {}
        self._name = task_name(topology)
        exchanges = {topology.topic_of(node): rank for rank, node in enumerate(topology.plan.of_type(Repartition), 1)}
        self._ranks = exchanges
        self._internal = graph.readers.keys()
        self._inside = {topic for topic in exchanges if graph.is_inside(topic)}
        self._exchanges = {topic for topic, writer in graph.writers.items() if writer == id.subtopology}
        self._inside_limits: dict[str, Position] = {}
        self._waiting: dict[InputKey, list[tuple[int, pa.RecordBatch]]] = {}
        self._positions: Any = NONE
        self._last: Position = LEAST
        self._default: Position = LEAST
        self._order = NO_ORDER
        self._dropped: dict[tuple[str, str], int] = {}
        self._taken: Counter[str] = Counter()

    def begin(self, now: int, order: BatchOrder) -> None:
        """Begins a batch."""
        self._order = order
        self._default = max(self._last, order.least(self.id.subtopology) or LEAST)
        self.task.context.now = now
        self._dropped = dict(self.task.context.dropped)
        self._taken = Counter()

    def reads(self, topic: str) -> bool:
        """Whether the task reads a topic."""
        return self.task.queue(topic) is not None

    def resume(self, memory: TaskMemory) -> None:
        """Continues with the offsets and the position of an earlier task."""
        for topic, partition, offset in memory.offsets:
            if self.reads(topic):
                self.offsets[topic, partition] = offset
        if memory.name == self._name:
            self._last = memory.position

    def _rank(self, key: InputKey) -> tuple[int, InputKey]:
        """The rank of an input among those with records of one origin: exchanges in the order of the plan."""
        return self._ranks.get(key[0], 0), key

    def receive(self, key: InputKey, records: pa.RecordBatch, batch: int) -> None:
        """Adds records to the buffer of an input.

        Args:
            key: The input.
            records: The records.
            batch: The batch that read their origins, or a later one.
        """
        self._waiting.setdefault(key, []).append((batch, records))

    def apply_globals(self, slices: Iterable[InputSlice]) -> None:
        """Applies records of global tables, which take effect at once."""
        for part in slices:
            self.task.add(part.topic, list(map(InputRecord, *columns_of(records_of(part)))))

    def run(self, bounds: Iterable[InputBound], now: int) -> None:
        """Takes buffered records, as far as the order and the bounds of inputs allow, and runs punctuators.

        Args:
            bounds: The bounds of inputs with more records, of this task and of others.
            now: The time of the batch.
        """
        upstream = self._order.limit(self.id.subtopology)
        unread = [bound for bound in bounds if self.reads(bound.topic)]
        limits = [bound.bound or LEAST for bound in unread if bound.topic not in self._inside]
        # Tasks of a cycle wait for no topic inside of it, but they keep the order of the topic itself.
        self._inside_limits = {
            topic: min(bound.bound or LEAST for bound in unread if bound.topic == topic)
            for topic in {bound.topic for bound in unread} & self._inside
        }
        is_quiet = not limits and (upstream is None or self._order.is_caught_up(self.id.subtopology))
        if upstream is not None:
            limits.append(upstream)
        self._take(min(limits, default=None), self._order.released_to(self.id.subtopology))
        self.task.advance_wall_clock(now, is_quiet=is_quiet and not self._waiting)

    def _take(self, limit: Position | None, released: int) -> None:
        task = self.task
        waiting = {key: self._waiting[key] for key in sorted(self._waiting, key=self._rank)}
        batches = {key: _joined([records for _batch, records in parts]) for key, parts in waiting.items()}
        exchanges = {topic for topic, _partition in batches if topic in self._ranks}
        merged = merge([self._input(key, batches[key], waiting[key], released, exchanges) for key in batches], limit)
        self._waiting = {}
        taken: list[tuple[Queue, Columns]] = []
        for (key, records), count in zip(batches.items(), merged.counts, strict=True):
            if count < len(records):
                self._waiting[key] = list(_without(waiting[key], count))
            queue = task.input(*key)
            self._taken[queue.node.name] += count
            columns = columns_of(records.slice(0, count))
            queue.find = finder(columns)
            if count:
                self.offsets[key] = columns.offsets[-1] + 1
            taken.append((queue, columns))
        if self._exchanges:
            self._positions = merged.positions()
        if taken:
            task.take(taken, merged.order)
        if merged.last is not None:
            self._last = max(self._last, merged.last)
            self._default = max(self._default, self._last)

    def _input(
        self,
        key: InputKey,
        records: pa.RecordBatch,
        parts: list[tuple[int, pa.RecordBatch]],
        released: int,
        exchanges: Collection[str],
    ) -> Input:
        """The buffered records of an input, as `merge` takes them; *exchanges*: those with buffered records."""
        positions = from_arrow(records.column(2))
        return Input(
            positions,
            sum(len(part) for batch, part in parts if batch <= released),
            to_numbers(records.column(1)) if len(exchanges) > 1 and key[0] in exchanges else None,
            None if key[0] in self._internal else ordinal_of(positions[0].item()),
            self._inside_limits.get(key[0]),
        )

    def take_outputs(self) -> tuple[list[Any], Origins]:
        """Returns the outputs since the last call, and their origins."""
        return self.task.take_outputs(), Origins(self._exchanges, self._positions, self._default)

    def drops(self) -> list[Drop]:
        """The numbers of records dropped in this batch."""
        dropped = self.task.context.dropped.items()
        return [Drop(*where, count - self._dropped.get(where, 0)) for where, count in dropped]

    def progress(self) -> TaskProgress:
        """The progress of the task after a batch."""
        punctuators = self.task.context.punctuators
        return TaskProgress(
            self.id,
            due=punctuators.due(),
            asleep=punctuators.asleep(),
            waiting=sum(len(records) for parts in self._waiting.values() for _batch, records in parts),
            held=min((from_arrow(parts[0][1].column(2))[0].item() for parts in self._waiting.values()), default=None),
            awake=bool(self._waiting) or punctuators.any("wall"),
            taken=dict(self._taken),
        )

    def cells(self) -> Cells:
        """The cells of the task, as they are stored."""
        return saved_cells(self.task.cells(), self._name)

    def memory(self) -> TaskMemory:
        """The state of the task outside its stores."""
        waiting = [
            InputSlice(topic, [partition], [len(records)], pa.concat_batches([records]).serialize().to_pybytes(), batch)
            for (topic, partition), parts in self._waiting.items()
            for batch, records in parts
        ]
        offsets = [(*key, self.offsets[key]) for key in self._waiting if key in self.offsets]
        return TaskMemory(self.cells(), waiting, offsets, self._name, self._last)


def records_of(part: InputSlice) -> pa.RecordBatch:
    """The records of a slice."""
    return pa.ipc.read_record_batch(pa.py_buffer(part.data), INPUT_SCHEMA)


def records_by_input(part: InputSlice) -> Iterator[tuple[InputKey, pa.RecordBatch]]:
    """The records of each input in a slice."""
    records, start = records_of(part), 0
    for partition, count in zip(part.partitions, part.counts, strict=True):
        yield (part.topic, partition), records.slice(start, count)
        start += count


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _without(parts: list[tuple[int, pa.RecordBatch]], count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The parts of a buffer without its first *count* records."""
    for batch, records in parts:
        if count < len(records):
            yield batch, records.slice(count)
        count = max(0, count - len(records))
