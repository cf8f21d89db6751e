"""The read stage: reads ranges of topics, runs what needs no task, and deals the records to the tasks by their keys."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from millstream.core.durations import END_OF_TIME
from millstream.core.failpoints import declare, reach
from millstream.engine import Task
from millstream.engine.errors import FAILURES
from millstream.errors import MillstreamError, OffsetOutOfRangeError, RunError
from millstream.log.api import Records
from millstream.log.arrays import from_integers, to_numbers
from millstream.log.blocks import to_batch
from millstream.plan.functions import Function
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.runtime.messages import PIECE, Drop, Piece, Written, failure_of, pack
from millstream.runtime.program.program import Program
from millstream.runtime.publish.output_blocks import blocks_of, columns_for
from millstream.runtime.read.columns import columns_of, finder
from millstream.runtime.read.dealing import NO_ORDERS, Dealer, packed
from millstream.runtime.tasks.timeouts import Watched
from millstream.runtime.tasks.user_output import captured
from millstream.stages import Topology

DELIVERY, RESULT = 0, 1

LOST = "lost"
"""Why records were dropped that were deleted before they were read."""

AFTER_READ = declare("reader.after-read")

_ROW_BYTES = 2**20
"""What ranges wrote goes into one row until it has so many bytes."""


class Range(NamedTuple):
    """What a batch reads of one partition of a topic.

    Attributes:
        more: The log has records behind its end.
        bounds: The greatest times that were read in earlier batches, by the topics and partitions as which tasks know
            the records of the partition: see `Dealing`.
    """

    topic: str
    partition: int
    start: int
    end: int
    more: bool
    bounds: Sequence[tuple[str, int, int]] = ()


class Row(NamedTuple):
    """One row of the read stage: for a task, its kind, and what is in it: a `Delivery`, or a list of `Written`."""

    task: int
    kind: int
    payload: bytes


class Reader:
    """Reads for one application; made once in each process, because its operators are compiled then."""

    def __init__(self, program: Program, log: Records) -> None:
        self._program = program
        self._log = log
        placement = program.placement
        self._globals = {table.topic for table in program.topology.global_tables}
        self._tasks = [Task(topology, program.config) for topology in placement.readers]
        for task in self._tasks:
            task.context.partition_counts = lambda topic: program.counts.get(topic, program.tasks)
            task.context.largest = program.log.largest
        self._has_tasks = bool(placement.tasks)
        self._inputs = Inputs(placement.tasks)
        self._watched = Watched(program.config["task.timeout.ms"])

    @property
    def is_stuck(self) -> bool:
        """Whether a function has not returned: what was said of it is all that this process is still good for."""
        return self._watched.is_stuck

    def read(
        self,
        batch: int,
        now: int,
        ranges: Sequence[Range],
        records: pa.Table | None = None,
        tasks: Sequence[int] | None = None,
    ) -> Iterator[Row]:
        """Reads the ranges of a batch; yields what was written without a task, and the deliveries for the tasks.

        Args:
            batch: The number of the batch.
            now: Its time.
            ranges: What it reads.
            records: Those of the only range, if somebody has read them already.
            tasks: The tasks that run even if there is nothing for them; None: all.
        """
        bounds = {(topic, part): bound for one in ranges for topic, part, bound in one.bounds}
        dealer = Dealer(self._program.tasks, bounds)
        results: list[Written] = []
        size = 0
        for one in ranges:
            printed: list[str] = []
            started = time.perf_counter()
            try:
                with captured(printed):
                    written = self._read_range(one, now, dealer, records)
            except MillstreamError as error:
                written = Written((0, one.topic, one.partition), failure=failure_of(error))
            except OSError:
                raise  # it may pass
            except BaseException as error:  # noqa: BLE001  (whatever it is, the driver must be told)
                wrapped = RunError(f"reading topic {one.topic}, partition {one.partition} failed: {error!r}")
                wrapped.__cause__ = error
                written = Written((0, one.topic, one.partition), failure=failure_of(wrapped))
            figures = {"read": time.perf_counter() - started, "planned": now / 1000, **written.figures}
            results.append(msgspec.structs.replace(written, printed=printed, figures=figures))
            size += sum(len(block.data) for block in written.blocks)
            if size >= _ROW_BYTES or self.is_stuck:
                yield Row(one.partition % self._program.tasks, RESULT, pack(results))
                results, size = [], 0
            if self.is_stuck:
                return
        reach(AFTER_READ)
        slot = 0
        for task, delivery in dealer.deliveries(batch, now, tasks) if self._has_tasks else ():
            slot = task  # one that has something to do anyway
            yield Row(task, DELIVERY, pack(delivery))
        if results:
            yield Row(slot, RESULT, pack(results))

    def _read_range(self, one: Range, now: int, dealer: Dealer, given: pa.Table | None) -> Written:
        table, lost = self._records(one, given)
        work = partial(self._work, one, now, table, lost, dealer)
        if not self._calls_functions(one.topic):
            return work()  # without a change of threads, of which a batch of many small partitions would have many
        return self._watched.run(f"topic {one.topic}, partition {one.partition}", work)

    def _calls_functions(self, topic: str) -> bool:
        """Whether records of a topic pass functions of the user's before they come to a task."""
        source = self._inputs.source(topic)
        return _time_function(source) is not None or any(task.queue(topic) is not None for task in self._tasks)

    def _work(self, one: Range, now: int, table: pa.Table, lost: list[Drop], dealer: Dealer) -> Written:
        """Runs what needs no task on the records of a range, and deals the rest to the tasks."""
        records = _one_batch(table)
        offsets = [(one.topic, one.partition, one.start, one.end)]
        origin = (0, one.topic, one.partition)
        figures = {"bytes": float(records.nbytes)}
        if one.topic in self._globals and self._has_tasks:
            dealer.give_all(_piece(one, records))
        if one.topic in self._program.restores:
            dealer.restore(one.partition, _piece(one, records))
            return Written(origin, offsets=offsets, drops=lost, figures=figures)
        known = len(dealer.bounds)
        source = self._inputs.source(one.topic)
        if source is not None:
            orders = _orders(source, records)
            dealer.deal((one.topic, one.partition), records, orders, keyless=one.partition, more=one.more)
        outputs: list[Any] = []
        drops = lost
        taken: dict[str, int] = {}
        for task in self._tasks:
            if task.queue(one.topic) is None:
                continue
            before = dict(task.context.dropped)
            task.context.now = now
            queue, columns = task.input(one.topic, one.partition), columns_of(records)
            queue.find = finder(columns)
            taken[queue.node.name] = records.num_rows
            task.take_outputs()  # of a batch that failed half-way
            task.take([(queue, columns)])
            drops += [Drop(*where, count - before.get(where, 0)) for where, count in task.context.dropped.items()]
            outputs += self._send_on(one, task, dealer)
        return Written(
            origin,
            blocks=list(blocks_of(outputs, self._program.counts.get, one.partition)),
            drops=drops,
            offsets=offsets,
            figures=figures,
            taken=taken,
            bounds=dealer.bounds[known:],
        )

    def _records(self, one: Range, given: pa.Table | None) -> tuple[pa.Table, list[Drop]]:
        """The records of a range; and those that are gone, if the application goes on without them."""
        if given is not None and not self._may_be_gone(one, given):
            return given, []
        try:
            return self._log.read(one.topic, one.partition, one.start, one.end), []
        except OffsetOutOfRangeError:
            first = min(self._log.starts([one.topic])[one.topic][one.partition], one.end)
            if self._program.config["data.loss.handler"] == "fail" or first <= one.start:
                raise
        lost = [Drop(one.topic, LOST, first - one.start)]
        return self._log.read(one.topic, one.partition, first, one.end), lost

    def _may_be_gone(self, one: Range, given: pa.Table) -> bool:
        """Whether the first records of a range are not among those that somebody read: they may never have been."""
        if one.start == one.end or (len(given) and given.column("offset")[0].as_py() == one.start):
            return False
        return self._log.starts([one.topic])[one.topic][one.partition] > one.start

    @staticmethod
    def _send_on(one: Range, task: Task, dealer: Dealer) -> list[Any]:
        """Deals what goes through a direct repartition to the tasks; returns the rest."""
        nodes = task.topology.plan.of_type(Repartition)
        topics: dict[str, list[Any]] = {task.topology.topic_of(node): [] for node in nodes}
        code = _code(task.topology, one.topic, one.partition)
        rest: list[Any] = []
        for record in task.take_outputs():
            topics.get(record[0], rest).append(record)
        for topic, sent in topics.items():
            deal = partial(dealer.deal, (topic, code), keyless=one.partition, more=one.more)
            if not sent:
                deal(_NO_RECORDS, NO_ORDERS)
                continue
            keys, values, timestamps, headers, partitions = columns_for(topic, sent)
            offsets = from_integers(np.arange(one.start, one.start + len(keys)))
            records = pa.record_batch([offsets, *to_batch(timestamps, keys, values, headers).columns], schema=_READ)
            chosen = None
            if any(p is not None for p in partitions):
                chosen = np.array([-1 if p is None else p for p in partitions])
            deal(records, _running(records), chosen=chosen)
        return rest


class Dealing:
    """Knows under which names the records of a partition come to the tasks."""

    def __init__(self, program: Program) -> None:
        self._tasks = Inputs(program.placement.tasks)
        self._readers = [(topology, Inputs([topology])) for topology in program.placement.readers]
        self._known: dict[tuple[str, int], list[tuple[str, int]]] = {}

    def places(self, topic: str, partition: int) -> list[tuple[str, int]]:
        """Its own, and those of the repartitions that are dealt at once."""
        found = self._known.get((topic, partition))
        if found is None:
            found = self._known[topic, partition] = self._find(topic, partition)
        return found

    def _find(self, topic: str, partition: int) -> list[tuple[str, int]]:
        found = [(topic, partition)] if self._tasks.source(topic) is not None else []
        for topology, inputs in self._readers:
            if inputs.source(topic) is not None:
                code = _code(topology, topic, partition)
                found += [(topology.topic_of(node), code) for node in topology.plan.of_type(Repartition)]
        return found


def _code(topology: Topology, topic: str, partition: int) -> int:
    """A number for the partition that tells apart those of several topics behind one repartition."""
    sources = list(topology.plan.of_type(Source))
    if len(sources) == 1 and len(sources[0].topics) == 1:
        return partition
    return (zlib.crc32(topic.encode()) << 24) + partition


class Inputs:
    """Which topics some topologies read."""

    def __init__(self, topologies: Iterable[Topology]) -> None:
        self._by_topic: dict[str, Source | Repartition] = {}
        self._patterns: list[tuple[re.Pattern[str], Source]] = []
        for topology in topologies:
            for source in (source for part in topology.parts for source in part.sources):
                self._by_topic.update(dict.fromkeys(topology.topics(source), source))
                if isinstance(source, Source) and source.pattern is not None:
                    self._patterns.append((re.compile(source.pattern), source))

    def source(self, topic: str) -> Source | Repartition | None:
        """The node whose records a topic has; None if none reads it."""
        found = self._by_topic.get(topic)
        if found is None:
            found = next((source for pattern, source in self._patterns if pattern.fullmatch(topic)), None)
        return found


def _orders(source: Source | Repartition, records: pa.RecordBatch) -> Any:
    """The running maximum of the times of records, as far as they can be told without the task."""
    function = _time_function(source)
    if function is None:
        return _running(records)
    assert isinstance(source, Source)
    extract, count = function.full(), len(function.roles)
    times = []
    _offsets, timestamps, keys, values, _headers = columns_of(records)
    for timestamp, key, value in zip(timestamps, keys, values, strict=True):
        try:
            time = extract(*(source.key.deserialize(key), source.value.deserialize(value), timestamp)[:count])
            time = -1 if time is None or time > END_OF_TIME else max(int(time), -1)
        except FAILURES:  # the task will find it too, and knows what to do
            time = -1
        times.append(time)
    return np.maximum.accumulate(np.array(times, dtype=np.int64)) if times else NO_ORDERS


def _time_function(source: Source | Repartition | None) -> Function | None:
    """The function that says the time of a record, if it needs nothing but the record."""
    function = source.timestamps.function if isinstance(source, Source) else None
    return None if function is None or "partition_time" in function.roles else function


_READ = pa.schema([field for field in PIECE if field.name != "order"])
_NO_RECORDS = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in _READ], schema=_READ)


def _one_batch(records: pa.Table) -> pa.RecordBatch:
    batches = records.combine_chunks().to_batches()
    return batches[0] if batches else _NO_RECORDS


def _running(records: pa.RecordBatch) -> Any:
    return np.maximum.accumulate(to_numbers(records.column("timestamp"))) if records.num_rows else NO_ORDERS


def _piece(one: Range, records: pa.RecordBatch) -> Piece:
    """All records of a range for one task."""
    return Piece(one.topic, [one.partition], [records.num_rows], packed(records, _running(records)))
