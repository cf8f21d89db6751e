"""The test driver: a host that runs the engine in the test's own process, step by step."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from millstream.config import Config
from millstream.core.durations import Duration, show_ms, to_ms
from millstream.core.partitioning import partition_for
from millstream.core.records import Record, check_headers
from millstream.dsl.app import App
from millstream.dsl.stores import name_of
from millstream.dsl.table import GlobalTable, Table
from millstream.engine import InputRecord, Task
from millstream.engine.context import DroppedRecord, OutputRecord
from millstream.errors import (
    MillstreamError,
    RunError,
    SerdeError,
    TopologyError,
    UnknownStoreError,
    suggestion,
)
from millstream.optimize import optimize
from millstream.plan.sources import Source, ToTable
from millstream.plan.topics import free_writer, reader_of, topics_read, topics_written, writer_of
from millstream.serde import BYTES, Serde, serde_for
from millstream.stages import Topology, cut
from millstream.state.spec import ChangelogRecord, StoreSpec
from millstream.state.stores import ReadOnlyKeyValueStore
from millstream.testing.stores import read_store
from millstream.testing.topics import TestInput, TestOutput

K = TypeVar("K")
V = TypeVar("V")
Batches = int | list[int] | Literal["random"] | None


class TestDriver:
    """Runs an application in a test: records are piped in, results and stores are read, and nothing else is needed.

    The topology goes through the same plan, optimizer, stages and engine as in production; the driver only stands in
    for the topics and for the clock. With one partition (the default) it takes records just as Kafka Streams' own
    test driver does: each piped record is processed to its end before `pipe` returns.

    Args:
        app: The application.
        partitions: How many partitions the topics have; records are dealt to them by their keys.
        batches: Cuts what is piped into micro-batches, to show that results do not depend on the cuts: an int for
            batches of so many records, a list for batches of chosen sizes, ``"random"``. Nothing is then
            processed until `run`, or until something is read.
        seed: For random batches.
        wall_clock: The wall clock at the start, in milliseconds; it moves only by `advance_wall_clock`.
        config: Configuration that takes the place of the application's own.

    >>> from millstream import App, TestDriver
    >>> app = App("doubling")
    >>> app.stream("in", value=int).map_values(lambda n: n * 2, value=int).to("out")
    >>> with TestDriver(app) as driver:
    ...     driver.input("in").pipe("k", 21, timestamp=5)
    ...     driver.output("out").read_all()
    [Record(key='k', value=42, timestamp=5, headers=())]
    """

    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        batches: Batches = None,
        seed: int = 0,
        wall_clock: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(app, App):
            raise TopologyError(f"TestDriver: expected an App, got {app!r}")
        if partitions < 1:
            raise TopologyError(f"a topic has at least one partition, got {partitions}")
        self._app = app
        self._config = Config({**app.config, **config}) if config else app.config
        self._partitions = partitions
        self._batches = _checked_batches(batches)
        self._random = random.Random(seed)  # noqa: S311  (it chooses where to cut, nothing secret)
        self._now = wall_clock
        self._failed: MillstreamError | None = None
        self.topology: Topology = cut(optimize(app.plan(), self._config["topology.optimization"]))
        self._global_topics = {table.topic for table in self.topology.global_tables}
        inputs = {topic: partitions for source in self.topology.plan.of_type(Source) for topic in source.topics}
        self._counts = self.topology.partitions(inputs)
        self._task_count = max([partitions, *self._counts.values()])
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._logs: dict[str, list[OutputRecord]] = {}
        self._waiting: list[tuple[str, int, InputRecord]] = []
        self._changelog_topics = {t.source_topic for t in self.topology.plan.of_type(ToTable) if t.reuse_source}
        self._delivered: dict[tuple[str, int], list[InputRecord]] = {}
        self._turns: Counter[str] = Counter()
        self._closed = False
        self._changelogs: list[dict[str, list[ChangelogRecord]]] = [{} for _ in range(self._task_count)]
        self._dropped_records: list[DroppedRecord] = []
        self._dropped_before: Counter[tuple[str, str]] = Counter()
        self._tasks = [self._make_task(p, None) for p in range(self._task_count)]
        self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._waiting:
            self.run()
        self.close()

    # ----- topics ----------------------------------------------------------------------------------------------

    @overload
    def input(
        self, topic: str, *, key: type[K], value: type[V], start: int = ..., advance: Duration = ...
    ) -> TestInput[K, V]: ...
    @overload
    def input(
        self, topic: str, *, key: Any = ..., value: Any = ..., start: int = ..., advance: Duration = ...
    ) -> TestInput[Any, Any]: ...
    def input(
        self, topic: str, *, key: Any = None, value: Any = None, start: int = 0, advance: Duration = 0
    ) -> TestInput[Any, Any]:
        """Returns an input for a topic that the application reads.

        Args:
            topic: Name of the topic.
            key: Serde of the keys, if not the application's own: ``bytes`` to pipe what it cannot read.
            value: Serde of the values; likewise.
            start: Timestamp of the first record for which none is given, in milliseconds.
            advance: How much later each following one is.
        """
        known_key, known_value = self._input_serdes(topic)
        keys = known_key if key is None else serde_for(key, "key")
        values = known_value if value is None else serde_for(value, "value")

        def send(record: Record[Any, Any], partition: int | None) -> None:
            self._pipe(topic, record, partition, keys, values)

        return TestInput(send, start, to_ms(advance))

    @overload
    def output(self, topic: str, *, key: type[K], value: type[V]) -> TestOutput[K, V]: ...
    @overload
    def output(self, topic: str, *, key: Any = ..., value: Any = ...) -> TestOutput[Any, Any]: ...
    def output(self, topic: str, *, key: Any = None, value: Any = None) -> TestOutput[Any, Any]:
        """Returns a reader of a topic that the application writes to, from its beginning.

        Args:
            topic: Name of the topic.
            key: Serde of the keys, if the application does not tell.
            value: Serde of the values, if the application does not tell.
        """
        known_key, known_value = self._output_serdes(topic)
        return TestOutput(
            self._logs.setdefault(topic, []),
            known_key if key is None else serde_for(key, "key"),
            known_value if value is None else serde_for(value, "value"),
            self._settle,
        )

    @property
    def produced_topics(self) -> set[str]:
        """The topics that something was written to, internal ones included."""
        self._settle()
        return {topic for topic, log in self._logs.items() if log}

    # ----- time and batches ------------------------------------------------------------------------------------

    def advance_wall_clock(self, by: Duration) -> None:
        """Moves the wall clock, and runs the punctuators that are due, each once."""
        self._check_running()
        step = to_ms(by)
        if step < 0:
            raise TopologyError(f"the wall clock cannot go back, got {show_ms(step)}")
        self._settle()
        self._now += step
        for task in self._tasks:
            self._guard(task.advance_wall_clock, self._now)
            self._route(task)
        self._drain()

    def run(self) -> None:
        """Processes what was piped, cut into micro-batches; only needed with ``batches=``."""
        waiting, self._waiting = self._waiting, []
        for topic, partition, record in waiting:  # global tables are read to their end before anything else
            if topic in self._global_topics:
                self._deliver(topic, partition, [record])
        waiting = [entry for entry in waiting if entry[0] not in self._global_topics]
        left: Counter[tuple[str, int]] = Counter((topic, partition) for topic, partition, _ in waiting)
        for size in self._cuts(len(waiting)):
            batch, waiting = waiting[:size], waiting[size:]
            for topic, partition, record in batch:
                left[topic, partition] -= 1
                self._deliver(topic, partition, [record])
            self._drain(lambda partition, topic: left[topic, partition] > 0)

    def _cuts(self, total: int) -> Iterable[int]:
        if self._batches == "random":
            while total > 0:
                size = self._random.randint(1, max(1, total))
                total -= size
                yield size
            return
        sizes = list(self._batches) if isinstance(self._batches, list) else None
        step = self._batches if isinstance(self._batches, int) else total
        while total > 0:
            size = min(sizes.pop(0), total) if sizes else min(step, total) if sizes is None else total
            total -= size
            yield size

    def restart(self, *, compact: bool = False) -> None:
        """Stops the application and starts it again, from the changelogs of its stores, as after a crash.

        Stores that were asked for before are those of the stopped application: ask for them again.

        Args:
            compact: Compact the changelogs first, as a log does in time: only the last record of each key stays.
                (Those of versioned stores keep all.)
        """
        self._settle()
        if compact:
            self._compact()
        states = [(self._changelog_of(task.partition), task.cells()) for task in self._tasks]
        for task in self._tasks:
            self._dropped_before.update(task.context.dropped)
            task.close()
        self._tasks = [self._make_task(p, state) for p, state in enumerate(states)]
        self._started()

    def close(self) -> None:
        """Closes the processors; nothing can be piped any more."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.close()

    # ----- what can be looked at -------------------------------------------------------------------------------

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Returns a store for reading: its rows of all partitions.

        Args:
            name: Name of the store; or its table, with which type checkers know the types of keys and values.
            timestamped: Show the timestamps that are kept with the values of tables, too.
        """
        self._settle()
        name = name_of(name)
        spec = self._spec(name)
        found = [task.context.stores[name] for task in self._tasks if name in task.context.stores]
        if not found:
            raise UnknownStoreError(
                f"store {name!r} is not kept: nothing looks it up", hint="give the table a name: store='…'"
            )
        everywhere = any(table.store.name == name for table in self.topology.global_tables)
        return read_store(spec, found[:1] if everywhere else found, timestamped=timestamped)

    def _spec(self, name: str) -> StoreSpec:
        try:
            return self.topology.plan.store(name)[1]
        except TopologyError as error:
            raise UnknownStoreError(error.message, hint=error.hint) from None

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """How many records were dropped, by operator and reason."""
        self._settle()
        total = Counter(self._dropped_before)
        for task in self._tasks:
            total.update(task.context.dropped)
        return dict(total)

    @property
    def dropped_records(self) -> list[DroppedRecord]:
        """The dropped records themselves, in the order in which they were dropped."""
        self._settle()
        return self._dropped_records

    def changelog(self, store: str) -> list[ChangelogRecord]:
        """All changelog records of a store so far, of all partitions."""
        self._settle()
        self._spec(store)
        return [record for log in self._changelogs for record in log.get(store, [])]

    # ----- inside ----------------------------------------------------------------------------------------------

    def _make_task(self, partition: int, state: Any) -> Task:
        task = Task(self.topology, self._config, partition, now=self._now, state=state)
        task.context.on_drop = self._dropped_records.append
        task.context.partition_counts = self._partition_count
        return task

    def _compact(self) -> None:
        for logs in self._changelogs:
            for name, records in logs.items():
                if self.topology.plan.store(name)[1].kind != "versioned":
                    last = {record.key: record for record in records}
                    logs[name] = [record for record in records if last[record.key] is record]

    def _changelog_of(self, partition: int) -> dict[str, list[ChangelogRecord]]:
        """The changelogs of a task; a table may have its source topic for one."""
        found = dict(self._changelogs[partition])
        for table in self.topology.plan.of_type(ToTable):
            if table.reuse_source and table.source_topic is not None:
                records = self._delivered.get((table.source_topic, partition), [])
                found[table.store.name] = [
                    ChangelogRecord(r.key, r.value, r.timestamp) for r in records if r.key is not None
                ]
        return found

    def _started(self) -> None:
        for task in self._tasks:
            self._route(task)
        self._drain()

    def _partition_count(self, topic: str) -> int:
        return self._counts.get(topic, self._partitions)

    def _pipe(
        self, topic: str, record: Record[Any, Any], partition: int | None, key: Serde[Any], value: Serde[Any]
    ) -> None:
        self._check_running()
        if type(record.timestamp) is not int or not -(2**63) <= record.timestamp < 2**63:
            raise TopologyError(
                f"input {topic!r}: {record.timestamp!r} is no timestamp", hint="timestamps are milliseconds, as an int"
            )
        try:
            check_headers(record.headers)
        except (TypeError, ValueError) as error:
            told = 'headers are pairs of str and bytes or None, such as (("trace", b"1"),)'
            raise TopologyError(f"input {topic!r}: {error}", hint=told) from None
        try:
            value_bytes = value.serialize(record.value)
        except SerdeError as error:
            raise SerdeError(f"input {topic!r}: {error.message}", hint=error.hint) from None
        try:
            key_bytes = key.serialize(record.key)
        except SerdeError as error:
            hint = None if error.hint is None else error.hint.replace("value=", "key=")
            raise SerdeError(f"input {topic!r}: the key: {error.message}", hint=hint) from None
        if partition is None:
            partition = self._choose_partition(topic, key_bytes)
        elif not 0 <= partition < self._partition_count(topic):
            raise TopologyError(
                f"topic {topic!r} has no partition {partition}", hint=f"it has {self._partition_count(topic)} of them"
            )
        offset = self._next_offset(topic, partition)
        given = InputRecord(offset, record.timestamp, key_bytes, value_bytes, record.headers)
        if self._batches is not None:
            self._waiting.append((topic, partition, given))
            return
        self._deliver(topic, partition, [given])
        self._drain()

    def _choose_partition(self, topic: str, key: bytes | None) -> int:
        count = self._partition_count(topic)
        if key is None:
            self._turns[topic] += 1
            return (self._turns[topic] - 1) % count
        return partition_for(key, count)

    def _next_offset(self, topic: str, partition: int) -> int:
        self._offsets[topic, partition] += 1
        return self._offsets[topic, partition] - 1

    def _deliver(self, topic: str, partition: int, records: list[InputRecord]) -> None:
        if topic in self._changelog_topics:
            self._delivered.setdefault((topic, partition), []).extend(records)
        for task in self._tasks if topic in self._global_topics else [self._tasks[partition]]:
            self._guard(task.add, topic, records)
            self._route(task)

    def _drain(self, more: Callable[[int, str], bool] | None = None) -> None:
        """Lets the tasks work until there is nothing left that they may take."""
        working = True
        while working:
            working = False
            for task in self._tasks:
                wait = None if more is None else functools.partial(more, task.partition)
                while self._guard(task.step, wait):
                    working = True
                    self._route(task)
        for task in self._tasks:
            for store, records in self._guard(task.changes).items():
                self._changelogs[task.partition].setdefault(store, []).extend(records)

    def _route(self, task: Task) -> None:
        """Puts what a task wrote into its topics, and what the application reads back into its queues."""
        for record in task.take_outputs():
            partition = record.partition
            if partition is None or partition < 0:
                partition = self._choose_partition(record.topic, record.key and record.key[:partition])
            self._logs.setdefault(record.topic, []).append(record)
            offset = self._next_offset(record.topic, partition)
            if self._tasks[partition].queue(record.topic) is not None:
                given = InputRecord(offset, record.timestamp, record.key, record.value, record.headers)
                self._deliver(record.topic, partition, [given])

    def _guard(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except MillstreamError as error:
            self._failed = error
            for task in self._tasks:  # dead letters of what failed
                for record in task.take_outputs():
                    self._logs.setdefault(record.topic, []).append(record)
            raise

    def _check_running(self) -> None:
        if self._closed:
            raise RunError("the driver is closed")
        if self._failed is not None:
            raise RunError("the application has stopped because of an error") from self._failed

    def _settle(self) -> None:
        if self._waiting:
            self.run()

    def _input_serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        plan = self.topology.plan
        reader = reader_of(plan, topic)
        if reader is not None:
            return reader.key, reader.value
        known = topics_read(plan)
        hint = suggestion(topic, known) or f"it reads: {', '.join(known)}"
        raise TopologyError(f"the application does not read a topic {topic!r}", hint=hint)

    def _output_serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        plan = self.topology.plan
        writer = writer_of(plan, topic) or free_writer(plan)
        if writer is not None:
            return writer.key, writer.value
        if topic in self._logs or topic in self._counts or topic == self._config["errors.dead.letter.queue.topic.name"]:
            return BYTES, BYTES
        known = topics_written(plan)
        hint = suggestion(topic, known) or f"it writes to: {', '.join(known) or 'none'}"
        raise TopologyError(f"the application does not write to a topic {topic!r}", hint=hint)


def _checked_batches(batches: Batches) -> Batches:
    sizes = batches if isinstance(batches, list) else [] if batches in (None, "random") else [batches]
    if not all(type(size) is int and size > 0 for size in sizes) or batches == []:
        raise TopologyError(f"batches: {batches!r} tells no sizes", hint="use a number, a list of numbers, or 'random'")
    return batches
