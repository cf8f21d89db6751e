"""Reads the records of a range, runs the stateless operators that need no task, and gives the records for the tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.engine import Task
from millstream.engine.record_times import RecordTime, record_time
from millstream.errors import OffsetOutOfRangeError
from millstream.log.api import Records
from millstream.log.arrays import from_integers, to_numbers
from millstream.log.blocks import to_batch
from millstream.plan.stateless import Repartition
from millstream.runtime.messages import INPUT_SCHEMA, Drop, StreamTime, TaskResult
from millstream.runtime.order import positions
from millstream.runtime.order.origin_header import detach
from millstream.runtime.order.positions import Position
from millstream.runtime.output_blocks import blocks_of, columns_for, origins_for
from millstream.runtime.program.program import Program
from millstream.runtime.read.columns import columns_of, finder
from millstream.runtime.read.inputs import InputId, Range, SourceTopics, repartition_number
from millstream.runtime.user_code.timeouts import Watchdog
from millstream.stages.exchange_graph import exchange_graph

LOST = "lost"
"""Drop reason of records that retention deleted before they were read."""


class InputRecords(NamedTuple):
    """Records of one range for one input of the tasks.

    Attributes:
        topic: The topic of the input, or its repartition.
        partition: The partition number of the input.
        keyless: Selects the task of records without a key.
        records: The records.
        positions: Their order positions.
        more: The log has more records of the partition.
        bound: The least order position that a later record can have; None if it is not known.
        chosen: For each record, the number that selects its task; -1 where the key does. None: the keys do.
    """

    topic: str
    partition: int
    keyless: int
    records: pa.RecordBatch
    positions: Any
    more: bool
    bound: Position | None
    chosen: Any = None

    def batch(self) -> pa.RecordBatch:
        """The records with the columns of `INPUT_SCHEMA`, for a task that needs no routing."""
        return input_batch(self.records, self.positions)


class RangeRecords(NamedTuple):
    """The outcome of reading a range.

    Attributes:
        result: Outputs of the operators that need no task, offsets and counts.
        inputs: Records for the tasks.
        globals: Records of a global table, for every task.
        restores: Records of a changelog, for the task with the partition's number.
    """

    result: TaskResult
    inputs: list[InputRecords]
    globals: pa.RecordBatch | None = None
    restores: pa.RecordBatch | None = None


class RangeReader:
    """Reads ranges for one application; made once in each process, because it compiles the operators."""

    def __init__(self, program: Program, log: Records) -> None:
        self._program = program
        self._log = log
        placement = program.placement
        self._globals = {table.topic for table in program.topology.global_tables} if placement.tasks else set()
        self._shared = frozenset(node.name for node in placement.shared)
        self._prefixes = [Task(topology, program.config) for topology in placement.readers]
        for prefix in self._prefixes:
            prefix.context.silent = self._shared
            prefix.context.partition_counts = lambda topic: program.counts.get(topic, program.tasks)
            prefix.context.largest = program.log.largest
        self._internal = exchange_graph(placement).writers.keys()
        self._topics = SourceTopics(placement.tasks)
        self._times: dict[str, RecordTime | None] = {}
        self._watchdog = Watchdog(program.config["task.timeout.ms"])

    @property
    def is_stuck(self) -> bool:
        """Whether a user function has not returned in time: this process can then read nothing more."""
        return self._watchdog.is_stuck

    def read(self, span: Range, now: int, prefetched: pa.Table | None = None) -> RangeRecords:
        """Reads a range.

        Args:
            span: The range.
            now: The time of the batch.
            prefetched: The records of the range, if Spark has read them.
        """
        table, lost = self._records(span, prefetched)
        work = partial(self._process, span, now, table, lost)
        if not self._calls_functions(span.topic):
            return work()  # avoids a thread switch per partition, of which a batch may have many
        return self._watchdog.run(f"topic {span.topic}, partition {span.partition}", work)

    def _calls_functions(self, topic: str) -> bool:
        """Whether records of a topic pass user functions before they reach a task."""
        return self._time_of(topic) is not None or any(prefix.queue(topic) is not None for prefix in self._prefixes)

    def _time_of(self, topic: str) -> RecordTime | None:
        """Extracts the times of records of a topic that tasks read; see `record_time`."""
        if topic not in self._times:
            self._times[topic] = record_time(self._topics.source(topic))
        return self._times[topic]

    def _process(self, span: Range, now: int, table: pa.Table, lost: list[Drop]) -> RangeRecords:
        records = _one_batch(table)
        result = TaskResult(
            (0, span.topic, span.partition),
            offsets=[(span.topic, span.partition, span.start, span.end)],
            drops=lost,
            figures={"bytes": float(records.nbytes)},
        )
        rows = records if span.topic in self._globals else None
        if span.topic in self._program.restores:
            return RangeRecords(result, [], rows, records)
        inputs: list[InputRecords] = []
        source = self._topics.source(span.topic)
        origins = None
        if span.topic in self._internal:
            records, origins = _without_origins(records)
        at, bound = None, span.bound
        if source is not None:
            at, bound = _positions(span, records, origins, partial(_times, self._time_of(span.topic), records))
            inputs.append(_input(span, (span.topic, span.partition), records, at, bound))
        outputs: list[Any] = []
        for prefix in self._prefixes:
            if prefix.queue(span.topic) is None:
                continue
            before = dict(prefix.context.dropped)
            prefix.context.now = now
            queue, columns = prefix.input(span.topic, span.partition), columns_of(records)
            queue.find = finder(columns)
            if queue.node.name not in self._shared:
                result.read[queue.node.name] = records.num_rows
            prefix.take_outputs()  # discards outputs of a batch that failed before its end
            prefix.take([(queue, columns)])
            dropped = prefix.context.dropped.items()
            result.drops.extend(Drop(*where, count - before.get(where, 0)) for where, count in dropped)
            if len(records):
                latest = int(to_numbers(records.column("timestamp")).max())
                result.times.extend(StreamTime(part.index, span.partition, latest) for part in prefix.topology.parts)
            if prefix.has_exchanges:
                if at is None:
                    at, bound = _positions(span, records, origins, partial(_times_of_task, prefix, records))
                outputs += self._repartition(span, prefix, at, bound, inputs)
            else:
                outputs += prefix.take_outputs()
        result.blocks.extend(blocks_of(outputs, self._program.counts.get, span.partition))
        if inputs and bound is not None:
            result.bounds.append((span.topic, span.partition, bound))
        return RangeRecords(result, inputs, rows)

    def _records(self, span: Range, prefetched: pa.Table | None) -> tuple[pa.Table, list[Drop]]:
        """The records of a range, and the count of lost ones if ``data.loss.handler`` ignores them."""
        if prefetched is not None and not self._may_be_lost(span, prefetched):
            return prefetched, []
        try:
            return self._log.read(span.topic, span.partition, span.start, span.end), []
        except OffsetOutOfRangeError:
            first = min(self._log.starts([span.topic])[span.topic][span.partition], span.end)
            if self._program.config["data.loss.handler"] == "fail" or first <= span.start:
                raise
        lost = [Drop(span.topic, LOST, first - span.start)]
        return self._log.read(span.topic, span.partition, first, span.end), lost

    def _may_be_lost(self, span: Range, prefetched: pa.Table) -> bool:
        """Whether the first records of a range are missing because they were deleted; offsets may also have gaps."""
        if span.start == span.end or (len(prefetched) and prefetched.column("offset")[0].as_py() == span.start):
            return False
        return self._log.starts([span.topic])[span.topic][span.partition] > span.start

    @staticmethod
    def _repartition(
        span: Range, prefix: Task, at: Any, bound: Position | None, inputs: list[InputRecords]
    ) -> list[Any]:
        """Adds the outputs that go through a repartition without a topic to the inputs of tasks; returns the others."""
        topology = prefix.topology
        sent: dict[str, list[Any]] = {topology.topic_of(node): [] for node in topology.plan.of_type(Repartition)}
        number = repartition_number(topology, span.topic, span.partition)
        others: list[Any] = []
        for record in prefix.take_outputs():
            sent.get(record[0], others).append(record)
        for topic, outputs in sent.items():
            if not outputs:
                inputs.append(_input(span, (topic, number), _NO_RECORDS, positions.NONE, bound))
                continue
            keys, values, timestamps, headers, partitions = columns_for(topic, outputs)
            origins = origins_for(topic, outputs)
            offsets = from_integers(np.arange(span.start, span.start + len(keys)))
            records = pa.record_batch([offsets, *to_batch(timestamps, keys, values, headers).columns], schema=_READ)
            chosen = None
            if any(p is not None for p in partitions):
                chosen = np.array([-1 if p is None else p for p in partitions])
            inputs.append(_input(span, (topic, number), records, at[np.array(origins)], bound, chosen))
        return others


def _input(
    span: Range, place: InputId, records: pa.RecordBatch, at: Any, bound: Position | None, chosen: Any = None
) -> InputRecords:
    """The records of an input."""
    return InputRecords(*place, span.partition, records, at, span.more, bound, chosen)


def _without_origins(records: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
    """The records of an internal topic without the header of their origins, and the origins."""
    place = records.schema.get_field_index("headers")
    headers, origins = detach(records.column(place))
    return records.set_column(place, "headers", headers), origins


def _positions(
    span: Range, records: pa.RecordBatch, origins: Any, times_of: Callable[[], Any]
) -> tuple[Any, Position | None]:
    """The order positions of records, continued from earlier batches, and the least position of later records.

    Args:
        span: The range.
        records: Its records.
        origins: The origins of records of an internal topic; None for an input topic.
        times_of: Returns the running maximum of the times of the records.
    """
    if not len(records):
        return positions.NONE, span.bound
    if origins is not None:
        at = positions.ascending(origins, span.bound)
        return at, at[-1].item()
    times = times_of()
    if span.bound is not None:
        times = times.clip(min=positions.time_of(span.bound))
    at = positions.positions(times, span.ordinal, to_numbers(records.column("offset")))
    return at, positions.position(int(times[-1]), span.ordinal, span.end)


def _times_of_task(task: Task, records: pa.RecordBatch) -> Any:
    """The running maximum of the times that a task has extracted from records."""
    return running_maximum(records) if task.times is None else np.maximum.accumulate(np.array(task.times, np.int64))


def _times(time_of: RecordTime | None, records: pa.RecordBatch) -> Any:
    """The running maximum of the record times, where the time depends on the record alone."""
    if time_of is None:
        return running_maximum(records)
    _offsets, timestamps, keys, values, headers = columns_of(records)
    times = np.fromiter(map(time_of, timestamps, keys, values, headers), np.int64, len(timestamps))
    return np.maximum.accumulate(times)


_READ = pa.schema([field for field in INPUT_SCHEMA if field.name != "position"])
_NO_RECORDS = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in _READ], schema=_READ)


def _one_batch(records: pa.Table) -> pa.RecordBatch:
    batches = records.combine_chunks().to_batches()
    return batches[0] if batches else _NO_RECORDS


def input_batch(records: pa.RecordBatch, at: Any) -> pa.RecordBatch:
    """Adds the column of order positions to records."""
    columns = [records.column(name) for name in ("offset", "timestamp")]
    columns.append(positions.to_arrow(at))
    columns += [records.column(name) for name in ("key", "value", "headers")]
    return pa.record_batch(columns, schema=INPUT_SCHEMA)


def running_maximum(records: pa.RecordBatch) -> Any:
    """The running maximum of the timestamps of records."""
    times = to_numbers(records.column("timestamp"))
    return np.maximum.accumulate(times) if records.num_rows else times
