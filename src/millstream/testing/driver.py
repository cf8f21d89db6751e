"""The test driver: runs an application in the process of a test, record by record."""

from __future__ import annotations

import random
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from millstream.config import Config
from millstream.core.durations import Duration, show_ms, to_ms
from millstream.core.records import Record, check_headers
from millstream.dsl.app import App
from millstream.dsl.stores import name_of
from millstream.dsl.table import GlobalTable, Table
from millstream.engine import InputRecord
from millstream.engine.context import DroppedRecord
from millstream.errors import SerdeError, TopologyError, UnknownStoreError, suggestion
from millstream.optimize import optimize
from millstream.optimize.bind_serdes import bind_serdes
from millstream.plan.contracts import quarantine_topics
from millstream.plan.topics import free_writer, reader_of, topics_read, topics_written, writer_of
from millstream.registry.api import SchemaRegistry
from millstream.schemas.registries import forget, registry_for
from millstream.serde import BYTES, Serde, SerdeContext, serde_for
from millstream.stages import Topology, cut
from millstream.state.spec import ChangelogRecord, StoreSpec
from millstream.state.stores import ReadOnlyKeyValueStore
from millstream.testing.input_order import InputOrder
from millstream.testing.registry import MemoryRegistry
from millstream.testing.stores import read_store
from millstream.testing.tasks import DriverTasks
from millstream.testing.topics import TestInput, TestOutput

K = TypeVar("K")
V = TypeVar("V")
Batches = int | list[int] | Literal["random"] | None


class TestDriver:
    """Runs an application in a test: the test pipes records in, and reads output topics and stores.

    The topology passes through the same plan, optimizer, stages and engine as in production; the driver replaces only
    the topics and the clock. With one partition (the default) it behaves like Kafka Streams' test driver: each piped
    record is processed completely before `pipe` returns.

    Args:
        app: The application.
        partitions: How many partitions the topics have; the key of a record determines its partition.
        batches: Divides the piped records into micro-batches, to show that results do not depend on the division: an
            int for batches of that size, a list of sizes, or ``"random"``. The driver then processes records
            only in `run`, or when something is read, in the order in which the runtime processes a backlog: by the
            running maximum of the timestamps of each partition.
        seed: The seed of random batches.
        wall_clock: The initial wall clock, in milliseconds; only `advance_wall_clock` advances it.
        config: Configuration that overrides the application's own.
        registry: The schema registry. Default: an empty one in memory, whatever the configuration says.

    Attributes:
        topology: The topology as it runs.
        registry: The schema registry, for tests that register schemas or check which ones the application registered.

    >>> from millstream import App, TestDriver
    >>> app = App("doubling")
    >>> app.stream("in", value=int).map_values(lambda n: n * 2, value=int).to("out")
    >>> with TestDriver(app) as driver:
    ...     driver.input("in").pipe("k", 21, timestamp=5)
    ...     driver.output("out").read_all()
    [Record(key='k', value=42, timestamp=5, headers=())]
    """

    __test__ = False  # pytest must not collect it as a class of tests

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        batches: Batches = None,
        seed: int = 0,
        wall_clock: int = 0,
        config: Mapping[str, Any] | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        if not isinstance(app, App):
            raise TopologyError(f"TestDriver: expected an App, got {app!r}")
        if partitions < 1:
            raise TopologyError(f"a topic has at least one partition, got {partitions}")
        self._config = Config({**app.config, **config}) if config else app.config
        self._batches = _checked_batches(batches)
        self._random = random.Random(seed)  # noqa: S311  (it chooses batch sizes, no secrets)
        plan = optimize(app.plan(), self._config["topology.optimization"])
        self.registry = MemoryRegistry() if registry is None else registry
        self._registry = registry_for(self.registry, self._config)
        weakref.finalize(self, forget, self._registry)
        self.topology: Topology = cut(bind_serdes(plan, self._registry))
        self._runner = DriverTasks(self.topology, self._config, partitions, wall_clock)
        self._waiting: list[tuple[str, int, InputRecord]] = []
        self._order = InputOrder(self.topology)

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
            key: The serde of the keys. Default: the application's own; ``bytes`` pipes data that it cannot read.
            value: The serde of the values; likewise.
            start: The timestamp of the first record without an explicit one, in milliseconds.
            advance: The step from one such timestamp to the next.
        """
        app_key, app_value = self._input_serdes(topic)
        keys = self._bound(app_key if key is None else serde_for(key, "key"), topic, is_key=True)
        values = self._bound(app_value if value is None else serde_for(value, "value"), topic, is_key=False)

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
            key: The serde of the keys. Default: the application's own.
            value: The serde of the values; likewise.
        """
        app_key, app_value = self._output_serdes(topic)
        return TestOutput(
            self._runner.outputs.setdefault(topic, []),
            self._bound(app_key if key is None else serde_for(key, "key"), topic, is_key=True),
            self._bound(app_value if value is None else serde_for(value, "value"), topic, is_key=False),
            self._run_waiting,
        )

    @property
    def produced_topics(self) -> set[str]:
        """The topics that contain records, including internal ones."""
        self._run_waiting()
        return {topic for topic, records in self._runner.outputs.items() if records}

    # ----- time and batches ------------------------------------------------------------------------------------

    def advance_wall_clock(self, by: Duration) -> None:
        """Advances the wall clock, and runs each punctuator that is due once."""
        self._runner.check_running()
        step = to_ms(by)
        if step < 0:
            raise TopologyError(f"the wall clock cannot go back, got {show_ms(step)}")
        self._run_waiting()
        self._runner.advance_wall_clock(step)

    def run(self) -> None:
        """Processes the piped records in micro-batches; only needed with ``batches=``."""
        waiting, self._waiting = self._waiting, []
        global_topics = self._runner.global_topics
        for topic, partition, record in waiting:  # global tables are read to their end before other topics
            if topic in global_topics:
                self._runner.deliver(topic, partition, record)
        waiting = [entry for entry in waiting if entry[0] not in global_topics]
        unread: Counter[tuple[str, int]] = Counter((topic, partition) for topic, partition, _ in waiting)
        for size in self._batch_sizes(len(waiting)):
            batch, waiting = waiting[:size], waiting[size:]
            for topic, partition, record in batch:
                unread[topic, partition] -= 1
                self._order.add(topic, partition, record)
            for topic, partition, record in self._order.take({source for source, count in unread.items() if count}):
                self._runner.deliver(topic, partition, record)
                self._runner.drain()

    def _batch_sizes(self, total: int) -> Iterable[int]:
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
        """Stops the application and starts it again, as after a crash: its stores are restored from their changelogs.

        Stores returned by `store` before belong to the stopped application: get them again.

        Args:
            compact: Compact the changelogs first: only the last record of each key remains. (Changelogs of versioned
                stores keep all records.)
        """
        self._run_waiting()
        self._runner.restart(compact=compact)

    def upgrade(self, app: App) -> TestDriver:
        """Stops the application, and starts a new version of it, which continues with its stores and times.

        Stores that the new version does not have are left out, as those that only the new version has are empty.

        Args:
            app: The new version of the application.

        >>> from millstream import App, TestDriver
        >>> def counts(more_than):
        ...     app = App("counts")
        ...     kept = app.stream("in", value=int).filter(lambda number: number > more_than)
        ...     kept.group_by_key().count(store="counts").to_stream().to("out")
        ...     return app
        >>> first = TestDriver(counts(0))
        >>> first.input("in").pipe("k", 1, timestamp=0)
        >>> second = first.upgrade(counts(5))
        >>> second.input("in").pipe("k", 9, timestamp=0)
        >>> second.store("counts").get("k")
        2
        """
        self._run_waiting()
        new = TestDriver(app, partitions=self._runner.default_partitions, registry=self.registry)
        new._runner.take_over(self._runner)
        self.close()
        return new

    def close(self) -> None:
        """Closes the processors; nothing can be piped any more."""
        self._runner.close()

    # ----- results -------------------------------------------------------------------------------------------

    @overload
    def store(self, name: Table[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: GlobalTable[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: str, *, timestamped: bool = False) -> Any: ...
    def store(self, name: str | Table[Any, Any] | GlobalTable[Any, Any], *, timestamped: bool = False) -> Any:
        """Returns a read-only view of a store, with the rows of all partitions.

        Args:
            name: The name of the store; or its table, from which type checkers infer the types of keys and values.
            timestamped: Return values of tables with their timestamps.
        """
        self._run_waiting()
        name = name_of(name)
        spec = self._spec(name)
        parts = self._runner.stores(name)
        if not parts:
            raise UnknownStoreError(
                f"store {name!r} is not kept: no operator reads it", hint="give the table a name: store='…'"
            )
        return read_store(spec, parts, timestamped=timestamped)

    def _spec(self, name: str) -> StoreSpec:
        try:
            return self.topology.plan.store(name)[1]
        except TopologyError as error:
            raise UnknownStoreError(error.message, hint=error.hint) from None

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """The number of dropped records, by operator and reason."""
        self._run_waiting()
        return self._runner.dropped()

    @property
    def dropped_records(self) -> list[DroppedRecord]:
        """The dropped records, in the order in which they were dropped."""
        self._run_waiting()
        return self._runner.dropped_records

    def changelog(self, store: str) -> list[ChangelogRecord]:
        """All changelog records of a store so far, of all partitions."""
        self._run_waiting()
        self._spec(store)
        return self._runner.changelog(store)

    def _pipe(
        self, topic: str, record: Record[Any, Any], partition: int | None, key: Serde[Any], value: Serde[Any]
    ) -> None:
        self._runner.check_running()
        if type(record.timestamp) is not int or not -(2**63) <= record.timestamp < 2**63:
            raise TopologyError(
                f"input {topic!r}: {record.timestamp!r} is not a timestamp",
                hint="timestamps are milliseconds, as an int",
            )
        try:
            check_headers(record.headers)
        except (TypeError, ValueError) as error:
            expected = 'headers are pairs of str and bytes or None, such as (("trace", b"1"),)'
            raise TopologyError(f"input {topic!r}: {error}", hint=expected) from None
        try:
            value_bytes = value.serialize_with_headers(record.value, record.headers)
        except SerdeError as error:
            raise SerdeError(f"input {topic!r}: {error.message}", hint=error.hint) from None
        try:
            key_bytes = key.serialize_with_headers(record.key, record.headers)
        except SerdeError as error:
            hint = None if error.hint is None else error.hint.replace("value=", "key=")
            raise SerdeError(f"input {topic!r}: the key: {error.message}", hint=hint) from None
        count = self._runner.partition_count(topic)
        if partition is None:
            partition = self._runner.choose_partition(topic, key_bytes)
        elif not 0 <= partition < count:
            raise TopologyError(f"topic {topic!r} has no partition {partition}", hint=f"it has {count} of them")
        offset = self._runner.next_offset(topic, partition)
        encoded = InputRecord(offset, record.timestamp, key_bytes, value_bytes, record.headers)
        if self._batches is not None:
            self._waiting.append((topic, partition, encoded))
            return
        self._runner.deliver(topic, partition, encoded)
        self._runner.drain()

    def _bound(self, serde: Serde[Any], topic: str, *, is_key: bool) -> Serde[Any]:
        return serde.bind(SerdeContext(topic, is_key, self._registry))

    def _run_waiting(self) -> None:
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
        if self._runner.has_topic(topic) or topic in self._letter_topics():
            return BYTES, BYTES
        known = topics_written(plan)
        hint = suggestion(topic, known) or f"it writes to: {', '.join(known) or 'none'}"
        raise TopologyError(f"the application does not write to a topic {topic!r}", hint=hint)

    def _letter_topics(self) -> set[str | None]:
        dead_letters = self._config["errors.dead.letter.queue.topic.name"]
        return {dead_letters, *quarantine_topics(self.topology.plan, self._config)}


def _checked_batches(batches: Batches) -> Batches:
    sizes = batches if isinstance(batches, list) else [] if batches in (None, "random") else [batches]
    if not all(type(size) is int and size > 0 for size in sizes) or batches == []:
        raise TopologyError(
            f"batches: {batches!r} is not a size or a list of sizes",
            hint="use a number, a list of numbers, or 'random'",
        )
    return batches
