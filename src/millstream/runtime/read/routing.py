"""Routes the records of a read stage to tasks, by key.

A task gets an input only if the batch has something for it: records, rows of a global table, the bound of an input that
it must not overtake, or a wall-clock punctuator. So the cost of a batch does not depend on the number of tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.partitioning_arrow import partitions_for
from millstream.log.arrays import from_integers, to_numbers
from millstream.runtime.messages import InputBound, InputSlice, TaskInput
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.positions import positions
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.range_reader import InputRecords, RangeRecords, input_batch, running_maximum

_FLUSH_RECORDS = 4096
"""Partitions are packed together until they have so many records: a slice has a fixed cost, however small it is."""


class Router:
    """Collects the task inputs of one read stage in one batch.

    Args:
        tasks: The number of tasks.
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._pending: dict[str, list[InputRecords]] = {}
        self._counts: Counter[str] = Counter()
        self._slices: dict[int, list[InputSlice]] = {}
        self._restores: dict[int, list[InputSlice]] = {}
        self._globals: list[InputSlice] = []
        self._bounds: list[InputBound] = []

    def add(self, span: Range, read: RangeRecords) -> None:
        """Routes the records of a range."""
        if read.globals is not None:
            self._globals.append(_slice(span, read.globals))
        if read.restores is not None:
            self._restores.setdefault(span.partition, []).append(_slice(span, read.restores))
        for records in read.inputs:
            self._route(records)

    def _route(self, records: InputRecords) -> None:
        topic = records.topic
        if records.more:
            self._bounds.append(InputBound(topic, records.partition, records.bound))
        if len(records.positions):
            self._pending.setdefault(topic, []).append(records)
            self._counts[topic] += len(records.positions)
            if self._counts[topic] >= _FLUSH_RECORDS:
                self._flush(topic)

    def inputs(self, now: int, wanted: Collection[int] | None, order: BatchOrder) -> Iterator[tuple[int, TaskInput]]:
        """Yields (task, input) for each task that has one.

        Args:
            now: The time of the batch.
            wanted: The tasks that run even without input; None: all.
            order: How far tasks go.
        """
        for topic in self._pending:
            self._flush(topic)
        all_tasks = wanted is None or bool(self._globals or self._bounds)
        tasks = range(self._tasks) if all_tasks else sorted({*(wanted or ()), *self._slices, *self._restores})
        for task in tasks:
            slices, restores = self._slices.get(task, []), self._restores.get(task, [])
            yield task, TaskInput(now, self._bounds, slices, self._globals, restores, all_tasks, order)

    def _flush(self, topic: str) -> None:
        """Packs the pending records of a topic: one slice for each task."""
        parts, self._pending[topic], self._counts[topic] = self._pending[topic], [], 0
        if not parts:
            return
        lengths = [len(part.positions) for part in parts]
        records = parts[0].records if len(parts) == 1 else pa.concat_batches([part.records for part in parts])
        at = parts[0].positions if len(parts) == 1 else np.concatenate([part.positions for part in parts])
        owners = np.repeat(np.arange(len(parts)), lengths)
        if self._tasks == 1:
            self._add(0, topic, parts, owners, packed(records, at))
            return
        numbers = self._task_numbers(parts, records, lengths)
        places = np.argsort(numbers, kind="stable")
        tasks, starts = np.unique(numbers[places], return_index=True)
        if len(tasks) > 1:
            records, at, owners = records.take(from_integers(places)), at[places], owners[places]
        for task, start, stop in zip(tasks.tolist(), starts, [*starts[1:], len(places)], strict=True):
            data = packed(records.slice(start, stop - start), at[start:stop])
            self._add(task, topic, parts, owners[start:stop], data)

    def _task_numbers(self, parts: Sequence[InputRecords], records: pa.RecordBatch, lengths: Sequence[int]) -> Any:
        """The task of each record."""
        keyless = np.repeat([part.keyless % self._tasks for part in parts], lengths)
        numbers = partitions_for(records.column("key"), self._tasks)
        numbers = np.where(numbers < 0, keyless, numbers)
        if any(part.chosen is not None for part in parts):
            chosen = np.concatenate(
                [np.full(len(part.positions), -1) if part.chosen is None else part.chosen for part in parts]
            )
            numbers = np.where(chosen < 0, numbers, chosen % self._tasks)
        return numbers

    def _add(self, task: int, topic: str, parts: Sequence[InputRecords], owners: Any, data: bytes) -> None:
        places, counts = np.unique(owners, return_counts=True)
        partitions = [parts[place].partition for place in places]
        self._slices.setdefault(task, []).append(InputSlice(topic, partitions, counts.tolist(), data))


def packed(records: pa.RecordBatch, at: Any) -> bytes:
    """The records of an input slice, as `InputSlice.data` has them."""
    data: bytes = input_batch(records, at).serialize().to_pybytes()
    return data


def _slice(span: Range, records: pa.RecordBatch) -> InputSlice:
    """All records of a range as one slice."""
    data = packed(records, positions(running_maximum(records), span.ordinal, to_numbers(records.column("offset"))))
    return InputSlice(span.topic, [span.partition], [records.num_rows], data)
