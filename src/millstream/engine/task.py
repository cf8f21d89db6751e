"""A task: one partition of a topology, with its state. Records in, records out."""

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
    """Runs the sub-topologies of one partition number, record by record, depth first.

    A host gives it records with `add`, lets it work with `run` or `step`, takes what it wrote with `take_outputs`, and
    keeps its state: `changes` and `cells`. A task knows nothing of where its records come from or go to.

    Args:
        topology: What to run.
        config: The application's configuration.
        partition: The partition number.
        now: The wall clock, in milliseconds.
        state: Changelogs by store, and cells, of an earlier task of this partition, from which to go on.
        raw: Values go in and come out as they are, without serdes.
        open_store: Opens the stores.
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
        if state is not None:
            self._restore(*state)
        try:
            self._build = Build(self.context)
            for part in topology.parts:
                for source in part.sources:
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
        found = self._queues.get(topic) or self._globals.get(topic)
        if found is None:
            for pattern, source in self._patterns:
                if pattern.fullmatch(topic):
                    found = self._queues[topic] = Queue(
                        source, topic, self.partition, self._build.forward(source), self.context
                    )
                    break
        return found

    def add(self, topic: str, records: Iterable[InputRecord]) -> None:
        """Gives the task records of its partition of a topic. Those of global tables take effect at once."""
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
        """The queue of a partition of a topic, for a host that gives records of several with `take`."""
        found = self._inputs.get((topic, partition))
        if found is None:
            queue = self.queue(topic)
            assert queue is not None, topic
            if partition != queue.partition:
                queue = Queue(queue.node, topic, partition, queue.process, self.context)
            found = self._inputs[topic, partition] = queue
        return found

    def add_decoded(self, topic: str, entries: Iterable[Any]) -> None:
        """Gives the task records that have been read already: (timestamp, key, value, headers, offset, raw record)."""
        queue = self._queues[topic]
        was_empty = not queue.entries
        queue.entries.extend(entries)
        if was_empty and queue.entries:
            self._heap.offer(queue.entries[0][0], queue)

    # ----- work ------------------------------------------------------------------------------------------------

    def step(self, more: Callable[[str], bool] | None = None) -> bool:
        """Takes one record, and runs the stream-time punctuators that are due; returns whether there was one.

        Args:
            more: Says whether more records of a topic are there to be given. The task does not take the last record of
                such a topic, because it could not know what to take next; so the order in which records are taken
                does not depend on how they were cut into batches.
        """
        if not len(self._heap):
            return False
        if more is not None and any(len(q.entries) < 2 and more(q.topic) for q in self._queues.values()):
            return False
        self._guard(self._take_next)
        return True

    def run(self, more: Callable[[str], bool] | None = None) -> None:
        """Takes all records that it has been given, or as many as it may; see `step`."""
        if more is not None:
            while self.step(more):
                pass
            return
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
        """Takes the record that is next in time, and runs the stream-time punctuators that are then due."""
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

    def _take_all(self, queue: Queue, entries: Iterable[Any]) -> None:
        """The loop for a single input: nothing is done per record but what the operators do."""
        context, process = self.context, queue.process
        entry: Any = None
        usual, context.current = context.current, lambda: entry
        context.source = queue
        latest = context.stream_time
        watched = bool(context.processors)  # which may ask for the time
        try:
            for entry in entries:
                timestamp, key, value, headers, _offset, _raw = entry
                if timestamp > latest:
                    latest = timestamp
                    if watched:
                        context.stream_time = latest
                process(key, value, timestamp, headers)
        finally:
            context.stream_time, context.current = latest, usual

    def take(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None = None) -> None:
        """Takes records of several inputs at once, in an order that the host has decided.

        Args:
            inputs: The records of each input, in their order.
            order: For each record, the input that it is of. None: one input after the other.
        """
        self._guard(self._take, inputs, order)

    def _take(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None) -> None:
        if self._take_chunk(inputs, order):
            return
        read = [(queue, *queue.read(columns)) for queue, columns in inputs]
        simple = not self.context.punctuators.any("stream")
        if simple and (order is None or len(read) == 1) and not any(wrong for _, _, wrong in read):
            for queue, entries, _wrong in read:
                self._take_all(queue, entries)
            return
        sources = [self._in_turn(*each) for each in read]
        if order is None:
            order = [number for number, (_, entries, _) in enumerate(read) for _ in entries]
        context = self.context
        for number in order:
            queue, self._entry, process = next(sources[number])
            timestamp, key, value, headers, _offset, _raw = self._entry
            context.source = queue
            if timestamp > context.stream_time:
                context.stream_time = timestamp
            process(key, value, timestamp, headers)
            if not simple:
                context.punctuators.run("stream", context.stream_time)

    def _take_chunk(self, inputs: list[tuple[Queue, Columns]], order: Sequence[int] | None) -> bool:
        """Takes all records at once, if they are of one source whose operators can; returns whether they could."""
        context = self.context
        sources = {queue.node for queue, columns in inputs if columns.offsets}
        if len(sources) != 1 or context.punctuators.any("stream") or context.trail is not None:
            return False
        bulk = self._build.bulk(sources.pop())
        chunk = None if bulk is None else read_chunk(inputs, order, self._look)
        if bulk is None or chunk is None:
            return False
        bulk.take(chunk)
        chunk.settle()
        latest = max(chunk.timestamps)
        if latest > context.stream_time:
            context.stream_time = latest
        return True

    def _look(self, queue: Queue, timestamp: int, offset: int) -> None:
        """Makes a record the current one, whose key and value nobody asks for."""
        self.context.source = queue
        self._entry = (timestamp, None, None, (), offset, None)

    @staticmethod
    def _in_turn(queue: Queue, entries: Iterable[Any], wrong: dict[int, Any]) -> Iterator[tuple[Queue, Any, Any]]:
        process = queue.process
        if not wrong:
            return zip(repeat(queue), entries, repeat(process))
        return ((queue, entry, wrong.get(place, process)) for place, entry in enumerate(entries))

    def advance_wall_clock(self, now: int, *, is_quiet: bool = True) -> None:
        """Sets the wall clock, and runs the wall-clock punctuators that are due, each once.

        Args:
            now: The time, in milliseconds.
            is_quiet: There are no records that the task has not seen: stream times may move without one.
        """
        self.context.now = now
        self._guard(lambda: self.context.punctuators.run("wall", now, is_quiet=is_quiet))

    # ----- what comes out --------------------------------------------------------------------------------------

    def take_outputs(self) -> list[Any]:
        """Returns what was written since the last call, in order: `OutputRecord`, after `take` also `OutputBatch`."""
        outputs = self.context.outputs[:]
        self.context.outputs.clear()
        return outputs

    def changes(self) -> dict[str, list[ChangelogRecord]]:
        """Returns what changed in the stores since the last call, by store."""
        found: dict[str, list[ChangelogRecord]] = {}
        for name, store in self.context.stores.items():
            try:
                records = store.changes()
            except SerdeError as error:
                owner, _spec = self.topology.plan.store(name)
                raise ProductionError(
                    f"production failed in operator {owner.name!r}: its store {name!r} cannot keep what it was given: "
                    f"{error.message}",
                    hint=error.hint,
                ) from error
            if records:
                found[name] = records
        return found

    def cells(self) -> dict[str, Any]:
        """The small facts that operators remember, stream time among them; with the stores, all of the state."""
        times = {f"store.{name}": store.time for name, store in self.context.stores.items() if hasattr(store, "time")}
        own = {name: cell[0] for name, cell in self.context.cells.items()}
        return {**own, **times, "task.stream-time": self.context.stream_time}

    def close(self) -> None:
        """Closes the processors."""
        for node, processor in self.context.processors:
            try:
                getattr(processor, "close", lambda: None)()
            except FAILURES as error:
                raise self.context.start_failure(node, describe_callable(processor.close), error) from error

    # ----- inside ----------------------------------------------------------------------------------------------

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
                self.context.watched(node, init)()
            except FAILURES as error:
                raise Fatal(self.context.start_failure(node, describe_callable(init), error)) from error

    def _drain_global(self, queue: Queue) -> None:
        while queue.entries:
            timestamp, key, value, headers, *_rest = queue.entries.popleft()
            self._guard(queue.process, key, value, timestamp, headers)

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
                    if hasattr(store, "time"):
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
