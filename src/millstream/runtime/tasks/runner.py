"""Runs one task: buffers its inputs, merges them in order, and lets the engine take the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine import InputRecord, Task
from millstream.engine.queues import Columns, Queue
from millstream.log.arrays import from_integers, to_numbers
from millstream.runtime.messages import INPUT_SCHEMA, NO_SENDER, Drop, InputSlice, TaskProgress
from millstream.runtime.program.program import Program
from millstream.runtime.read.columns import columns_of, finder
from millstream.runtime.tasks.memory import Cells, TaskMemory, saved_cells, task_name
from millstream.runtime.tasks.ordering import Input, merge
from millstream.stages import Topology
from millstream.stages.task_id import TaskId
from millstream.state.spec import StoreSpec

InputKey = tuple[str, int, int]
"""An input of a task: topic, partition and sender."""

Bounds = Mapping[InputKey, int | None]
"""For each input whose log has more records: the least order position that a later record can have, if known."""


class TaskRunner:
    """One task of an application: the engine's task, its inputs, its offsets and its cells.

    Args:
        id: The task's id.
        topology: The task's sub-topology.
        program: The application.
        cells: The task's cells, as `cells_of` gives them.
        now: The time of the batch.
        open_store: Opens the task's stores.

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
    ) -> None:
        self.id = id
        self.task = Task(topology, program.config, id.partition, now=now, state=({}, cells), open_store=open_store)
        self.task.context.partition_counts = lambda topic: program.counts.get(topic, 1)
        self.task.context.largest = program.log.largest
        self.offsets: dict[InputKey, int] = {}
        self._name = task_name(topology)
        self._waiting: dict[InputKey, pa.RecordBatch] = {}
        self._dropped: dict[tuple[str, str], int] = {}
        self._taken: Counter[str] = Counter()

    def begin(self, now: int) -> None:
        """Begins a batch."""
        self.task.context.now = now
        self._dropped = dict(self.task.context.dropped)
        self._taken = Counter()

    def reads(self, topic: str) -> bool:
        """Whether the task reads a topic."""
        return self.task.queue(topic) is not None

    def receive(self, key: InputKey, records: pa.RecordBatch) -> None:
        """Adds records to the buffer of an input."""
        waiting = self._waiting.get(key)
        self._waiting[key] = records if waiting is None else pa.concat_batches([waiting, records])

    def apply_globals(self, slices: Iterable[InputSlice]) -> None:
        """Applies records of global tables, which take effect at once."""
        for part in slices:
            self.task.add(part.topic, list(map(InputRecord, *columns_of(records_of(part)))))

    def run(self, bounds: Bounds, now: int) -> None:
        """Takes buffered records, as far as the bounds of inputs with more records allow, and runs punctuators."""
        bounds = {key: bound for key, bound in bounds.items() if self.reads(key[0])}
        self._take(bounds)
        self.task.advance_wall_clock(now, is_quiet=not bounds and not self._waiting)

    def _take(self, bounds: Bounds) -> None:
        task = self.task
        batches = {key: self._waiting[key] for key in sorted(self._waiting)}
        counts, order = merge(_inputs(batches, bounds))
        self._waiting = {}
        taken: list[tuple[Queue, Columns]] = []
        for (key, batch), count in zip(batches.items(), counts, strict=False):
            if count < len(batch):
                self._waiting[key] = batch.slice(count)
            topic, partition, sender = key
            queue = task.input(topic, partition)
            self._taken[queue.node.name] += count
            columns = columns_of(batch.slice(0, count))
            earlier = () if sender == NO_SENDER else (others for other, others in taken if other is queue)
            queue.find = finder(columns, *earlier)
            if count:
                self.offsets[key] = columns.offsets[-1] + 1
            taken.append((queue, columns))
        if taken:
            task.take(taken, order)

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
            waiting=sum(len(batch) for batch in self._waiting.values()),
            awake=bool(self._waiting) or punctuators.any("wall"),
            taken=dict(self._taken),
        )

    def cells(self) -> Cells:
        """The cells of the task, as they are stored."""
        return saved_cells(self.task.cells(), self._name)

    def memory(self) -> TaskMemory:
        """The state of the task outside its stores."""
        waiting = [
            InputSlice(topic, [partition], [len(batch)], pa.concat_batches([batch]).serialize().to_pybytes())
            for (topic, partition, _sender), batch in self._waiting.items()
        ]
        offsets = [(*key, self.offsets[key]) for key in self._waiting if key in self.offsets]
        return TaskMemory(self.cells(), waiting, offsets)


def records_of(part: InputSlice) -> pa.RecordBatch:
    """The records of a slice."""
    return pa.ipc.read_record_batch(pa.py_buffer(part.data), INPUT_SCHEMA)


def records_by_input(part: InputSlice) -> Iterator[tuple[InputKey, pa.RecordBatch]]:
    """The records of each input in a slice."""
    records, start = records_of(part), 0
    senders = records.column("sender")
    has_senders = senders.null_count < len(senders)
    for partition, count in zip(part.partitions, part.counts, strict=True):
        batch = records.slice(start, count)
        start += count
        if has_senders:
            yield from _by_sender(part.topic, partition, batch)
        else:
            yield (part.topic, partition, NO_SENDER), batch


def _by_sender(topic: str, partition: int, batch: pa.RecordBatch) -> Iterator[tuple[InputKey, pa.RecordBatch]]:
    numbers = to_numbers(pc.fill_null(batch.column("sender"), NO_SENDER).cast(pa.int64()))
    for sender in np.unique(numbers).tolist():
        yield (topic, partition, sender), batch.take(from_integers(np.flatnonzero(numbers == sender)))


_NO_ORDERS = np.empty(0, np.int64)
_LEAST = -(2**63)


def _inputs(batches: Mapping[InputKey, pa.RecordBatch], bounds: Bounds) -> list[Input]:
    """The inputs to merge: those with records, in order, and at most one without.

    Of the inputs without buffered records but with more in the log, only the one with the lowest bound limits the
    others; it comes last.
    """
    limits = {key: _LEAST if bound is None else bound for key, bound in bounds.items()}
    empty = min(((bound, key) for key, bound in limits.items() if key not in batches), default=None)
    keys = sorted(batches if empty is None else {*batches, empty[1]})
    ranks = {key: rank for rank, key in enumerate(keys)}
    inputs = [Input(ranks[key], to_numbers(batch.column(2)), limits.get(key)) for key, batch in batches.items()]
    return inputs if empty is None else [*inputs, Input(ranks[empty[1]], _NO_ORDERS, empty[0])]
