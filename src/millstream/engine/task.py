"""A task: one partition of a sub-topology, with its state. Records in, records out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import millstream.engine.operators  # noqa: F401  (registers the operators)
from millstream.config import Config
from millstream.engine.chunks import read_chunk
from millstream.engine.compile import Build
from millstream.engine.context import DroppedRecord, OutputRecord, TaskContext
from millstream.engine.errors import FAILURES, Fatal
from millstream.engine.heap import JavaHeap
from millstream.engine.queues import Columns, InputRecord, Queue
from millstream.errors import ProcessingError, ProductionError, SerdeError
from millstream.plan.functions import describe_callable
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.stages import Topology
from millstream.state.memory import open_store
from millstream.state.spec import ChangelogRecord, StoreSpec

__all__ = ["DroppedRecord", "InputRecord", "OutputRecord", "Task"]


class Task:
    """One task of an application, (sub-topology, partition): processes records one by one, depth first.

    The host of a task reads and writes the log, and sets the clock; the task has none of its own. There are two ways
    to process records. Either the host queues records with `add`, and `run` or `step` take them in the order of
    timestamps; or the host decides the order, and gives columns of records to `take`. The outputs are in
    `take_outputs`. The state of a task is `changes` (of its stores) and `cells`. The host keeps the offsets of its
    inputs.

    The topology usually has one sub-topology. A task of a whole topology, as the test driver creates it, runs the
    partitions of the same number of all sub-topologies; the host routes the records of repartition topics.

    Args:
        topology: The topology to run.
        config: The application's configuration.
        partition: The partition number.
        now: The wall clock, in milliseconds.
        state: Changelogs by store, and cells, of an earlier task of this partition, which this one continues.
        raw: Keys and values are Python objects in inputs and outputs, without serdes.
        open_store: Opens the stores.

    Attributes:
        has_exchanges: The topology writes internal topics.
        times: The times that the source has extracted from the records of the last `take`, if it has exchanges; None if
            they are the timestamps of the records.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        partition: int = 0,
        *,
        now: int = 0,
        state: tuple[dict[str, list[ChangelogRecord]], dict[str, Any]] | None = None,
        raw: bool = False,
        open_store: Callable[[StoreSpec], Any] = open_store,
    ) -> None:
        self.topology = topology
        self.partition = partition
        self.context = TaskContext(topology, config, partition, raw=raw, open_store=open_store)
        self.context.now = now
        self._queues: dict[str, Queue] = {}
        self._globals: dict[str, Queue] = {}
        self._inputs: dict[tuple[str, int], Queue] = {}
        self._patterns: list[tuple[re.Pattern[str], Source]] = []
        self._heap: JavaHeap[Queue] = JavaHeap()
        self._entry: Any = None
        self.context.current = lambda: self._entry
        self.has_exchanges = any(part.repartitions for part in topology.parts)
        self.times: list[int] | None = None
        if state is not None:
            self._restore(*state)
        try:
            self._build = Build(self.context)
            for subtopology in topology.parts:
                for source in subtopology.sources:
                    self._connect(source)
            for table in topology.global_tables:
                self._globals[table.topic] = Queue(
                    table, table.topic, partition, self._build.entry(table), self.context
                )
            self._start_processors()
        except Fatal as fatal:
            raise fatal.error from fatal.__cause__

    # ----- records in ------------------------------------------------------------------------------------------

    def queue(self, topic: str) -> Queue | None:
        """The queue of a topic, or None if the task does not read it."""
        queue = self._queues.get(topic) or self._globals.get(topic)
        if queue is None:
            for pattern, source in self._patterns:
                if pattern.fullmatch(topic):
                    process = self._build.entry(source)
                    queue = self._queues[topic] = Queue(source, topic, self.partition, process, self.context)
                    break
        return queue

    def add(self, topic: str, records: Iterable[InputRecord]) -> None:
        """Queues records of the task's partition of a topic. Records of global tables are processed at once."""
        queue = self.queue(topic)
        if queue is None:
            return
        was_empty = not queue.entries
        try:
            queue.add(records)
        except Fatal as fatal:
            raise fatal.error from fatal.__cause__
        finally:
            if topic not in self._globals and was_empty and queue.entries:
                self._heap.offer(queue.entries[0][0], queue)
        if topic in self._globals:
            self._drain_global(queue)

    def input(self, topic: str, partition: int) -> Queue:
        """The queue of any partition of a topic, for `take`. The task must read the topic."""
        queue = self._inputs.get((topic, partition))
        if queue is None:
            queue = self.queue(topic)
            assert queue is not None, topic
            if partition != queue.partition:
                queue = Queue(queue.node, topic, partition, queue.process, self.context)
            self._inputs[topic, partition] = queue
        return queue

    def add_decoded(self, topic: str, entries: Iterable[Any]) -> None:
        """Queues deserialized records: (timestamp, key, value, headers, offset, raw record)."""
        queue = self._queues[topic]
        was_empty = not queue.entries
        queue.entries.extend(entries)
        if was_empty and queue.entries:
            self._heap.offer(queue.entries[0][0], queue)

    # ----- work ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Processes one record, and runs the stream-time punctuators that are due; returns whether there was one."""
        if not len(self._heap):
            return False
        self._guard(self._take_next)
        return True

    def run(self) -> None:
        """Processes all queued records."""
        self._guard(self._run)

    def _run(self) -> None:
        heap = self._heap
        simple = not self.context.punctuators.any("stream")
        while len(heap):
            if simple and len(heap) == 1:
                queue = heap.poll()
                entries, queue.entries = queue.entries, type(queue.entries)()
                self._take_all(queue, entries)
            else:
                self._take_next()

    def _take_next(self) -> None:
        """Processes the record with the lowest timestamp, then runs the stream-time punctuators that are due."""
        context, heap = self.context, self._heap
        queue = heap.poll()
        entries = queue.entries
        self._entry = entry = entries.popleft()
        if entries:
            heap.offer(entries[0][0], queue)
        timestamp, key, value, headers, _offset, _raw = entry
        context.source = queue
        if timestamp > context.stream_time:
            context.stream_time = timestamp
        queue.process(key, value, timestamp, headers)
        context.punctuators.run("stream", context.stream_time)

    def _take_all(self, queue: Queue, entries: Iterable[Any], first: int = 0) -> None:
        """Processes the records of a single input, with hardly any work per record besides the operators' own.

        Args:
            queue: The input.
            entries: The records.
            first: The index of the first record.
        """
        context, process = self.context, queue.process
        entry: Any = None
        usual, context.current = context.current, lambda: entry
        context.source = queue
        latest = context.stream_time
        has_processors = bool(context.processors)  # they can read the stream time
        try:
            for context.index, entry in enumerate(entries, first):
                timestamp, key, value, headers, _offset, _raw = entry
                if timestamp > latest:
                    latest = timestamp
                    if has_processors:
                        context.stream_time = latest
                process(key, value, timestamp, headers)
        finally:
            context.stream_time, context.current, context.index = latest, usual, None

    def take(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None = None) -> None:
        """Processes the records of several inputs at once, in an order that the host decides.

        Args:
            inputs: The queue of each input, from `input`, and its records in the order of offsets.
            order: For each record to process, the index of its input. None: one input after the other.
        """
        self._guard(self._take, inputs, order)

    def _take(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None) -> None:
        self.times = None
        if self._take_chunk(inputs, order):
            return
        read = [(queue, *queue.read(columns)) for queue, columns in inputs]
        extracts = self.has_exchanges and any(queue.extracts for queue, _columns in inputs)
        self.times = [entry[0] for _queue, entries, _failures in read for entry in entries] if extracts else None
        context = self.context
        simple = not context.punctuators.any("stream")
        if simple and (order is None or len(read) == 1) and not any(failures for _, _, failures in read):
            first = 0
            for queue, entries, _failures in read:
                self._take_all(queue, entries, first)
                first += len(entries)
            return
        sources = [self._with_processes(*input_) for input_ in read]
        if order is None:
            order = [number for number, (_, entries, _) in enumerate(read) for _ in entries]
        for context.index, number in enumerate(order):
            queue, self._entry, process = next(sources[number])
            timestamp, key, value, headers, _offset, _raw = self._entry
            context.source = queue
            if timestamp > context.stream_time:
                context.stream_time = timestamp
            process(key, value, timestamp, headers)
            if not simple:
                context.punctuators.run("stream", context.stream_time)
        context.index = None

    def _take_chunk(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None) -> bool:
        """Processes all records as one chunk; returns False if their operators need single records."""
        context = self.context
        sources = {queue.node for queue, columns in inputs if columns.offsets}
        if len(sources) != 1 or context.punctuators.any("stream") or context.call_trace is not None:
            return False
        bulk = self._build.input_bulk(sources.pop())
        chunk = None if bulk is None else read_chunk(inputs, order, self._set_current)
        if bulk is None or chunk is None:
            return False
        bulk.take(chunk)
        chunk.handle_failures()
        latest = max(chunk.timestamps)
        if latest > context.stream_time:
            context.stream_time = latest
        return True

    def _set_current(self, queue: Queue, timestamp: int, offset: int) -> None:
        """Makes a record of a chunk the current one. Only its position and timestamp are needed."""
        self.context.source = queue
        self._entry = (timestamp, None, None, (), offset, None)

    @staticmethod
    def _with_processes(
        queue: Queue, entries: Iterable[Any], failures: dict[int, Any]
    ) -> Iterator[tuple[Queue, Any, Any]]:
        """Yields the entries of a queue, each with its process: the queue's, or the error handler of a bad record."""
        process = queue.process
        if not failures:
            return zip(repeat(queue), entries, repeat(process))
        return ((queue, entry, failures.get(index, process)) for index, entry in enumerate(entries))

    def advance_wall_clock(self, now: int, *, is_quiet: bool = True) -> None:
        """Sets the wall clock, and runs the wall-clock punctuators that are due, each once.

        Args:
            now: The time, in milliseconds.
            is_quiet: The task has taken all records in the log. Otherwise idle stream clocks do not advance.
        """
        self.context.now = now
        self._guard(lambda: self.context.punctuators.run("wall", now, is_quiet=is_quiet))

    # ----- outputs and state -----------------------------------------------------------------------------------

    def take_outputs(self) -> list[Any]:
        """Returns the outputs since the last call, in order: `OutputRecord`, after `take` also `OutputBatch`."""
        outputs = self.context.outputs[:]
        self.context.outputs.clear()
        return outputs

    def changes(self) -> dict[str, list[ChangelogRecord]]:
        """Returns the changelog records since the last call, by store."""
        changes: dict[str, list[ChangelogRecord]] = {}
        for name, store in self.context.stores.items():
            try:
                records = store.changes()
            except SerdeError as error:
                owner, _spec = self.topology.plan.store(name)
                raise ProductionError(
                    f"production failed in operator {owner.name!r}: a row of its store {name!r} cannot be serialized: "
                    f"{error.message}",
                    hint=error.hint,
                ) from error
            if records:
                changes[name] = records
        return changes

    @property
    def stream_time(self) -> int:
        """The greatest timestamp that the task has taken; -1 before the first record."""
        return self.context.stream_time

    def cells(self) -> dict[str, Any]:
        """Returns the small values that operators keep, the stream time included: the state besides the stores."""
        times = {f"store.{name}": store.time for name, store in self.context.stores.items() if store.time is not None}
        own = {name: cell[0] for name, cell in self.context.cells.items()}
        return {**own, **times, "task.stream-time": self.context.stream_time}

    def close(self) -> None:
        """Closes the processors."""
        for node, processor in self.context.processors:
            try:
                getattr(processor, "close", lambda: None)()
            except FAILURES as error:
                raise self.context.start_failure(node, describe_callable(processor.close), error) from error

    # ----- internals -------------------------------------------------------------------------------------------

    def _connect(self, source: Source | Repartition) -> None:
        if isinstance(source, Repartition):
            entry = self._build.forward(source)
            topic = self.topology.topic_of(source)
            self._queues[topic] = Queue(source, topic, self.partition, entry, self.context)
            return
        for topic in source.topics:
            self._queues[topic] = Queue(source, topic, self.partition, self._build.entry(source), self.context)
        if source.pattern is not None:
            self._patterns.append((re.compile(source.pattern), source))

    def _start_processors(self) -> None:
        for node, processor in self.context.processors:
            init = getattr(processor, "init", None)
            if init is None:
                continue
            try:
                self.context.traced(node, init)()
            except FAILURES as error:
                raise Fatal(self.context.start_failure(node, describe_callable(init), error)) from error

    def _drain_global(self, queue: Queue) -> None:
        before = self.context.source, self._entry
        self.context.source = queue
        try:
            while queue.entries:
                self._entry = queue.entries.popleft()
                timestamp, key, value, headers, *_rest = self._entry
                self._guard(queue.process, key, value, timestamp, headers)
        finally:
            self.context.source, self._entry = before

    def _restore(self, changelogs: dict[str, list[ChangelogRecord]], cells: dict[str, Any]) -> None:
        context = self.context
        context.stream_time = cells.get("task.stream-time", -1)
        for name, value in cells.items():
            if not name.startswith("store.") and name != "task.stream-time":
                context.cells[name] = [value]
        for node in self.topology.plan.nodes:
            for spec in node.stores:
                if spec.name in changelogs:
                    store = context.store(spec)
                    store.restore(changelogs[spec.name])
                    if store.time is not None:
                        store.time = cells.get(f"store.{spec.name}", store.time)

    def _guard(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Fatal as fatal:
            raise fatal.error from fatal.__cause__
        except RecursionError as error:
            raise ProcessingError(
                "the chain of operators below a record is too long for Python's stack",
                hint="put a repartition in between, or raise sys.setrecursionlimit",
            ) from error
