"""Runs the tasks of a topology in the process of a test, and stands in for the topics between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from millstream.config import Config
from millstream.core.partitioning import partition_for
from millstream.engine import InputRecord, Task
from millstream.engine.context import DroppedRecord, OutputRecord
from millstream.errors import MillstreamError, RunError
from millstream.plan.sources import Source, ToTable
from millstream.stages import Topology
from millstream.state.spec import ChangelogRecord


class DriverTasks:
    """The tasks of an application, one per partition, with their input queues, output topics and changelogs.

    Args:
        topology: The topology.
        config: The configuration of the application.
        partitions: How many partitions the input topics have.
        now: The wall clock, in milliseconds.

    Attributes:
        outputs: The records of each topic, in the order in which they were written.
        dropped_records: The dropped records, in the order in which they were dropped.
        global_topics: The topics of global tables. Every task reads all of their records.
    """

    def __init__(self, topology: Topology, config: Config, partitions: int, now: int) -> None:
        self._topology = topology
        self._config = config
        self._partitions = partitions
        self._now = now
        inputs = {topic: partitions for source in topology.plan.of_type(Source) for topic in source.topics}
        self._partition_counts = topology.partitions(inputs)
        count = max([partitions, *self._partition_counts.values()])
        self._next_offsets: Counter[tuple[str, int]] = Counter()
        self._unkeyed: Counter[str] = Counter()
        self._reused_topics = {table.source_topic for table in topology.plan.of_type(ToTable) if table.reuse_source}
        self._reused_records: dict[tuple[str, int], list[InputRecord]] = {}
        self._changelogs: list[dict[str, list[ChangelogRecord]]] = [{} for _ in range(count)]
        self._dropped_before_restart: Counter[tuple[str, str]] = Counter()
        self._failure: MillstreamError | None = None
        self._closed = False
        self.outputs: dict[str, list[OutputRecord]] = {}
        self.dropped_records: list[DroppedRecord] = []
        self.global_topics = {table.topic for table in topology.global_tables}
        self._tasks = [self._make_task(partition, None) for partition in range(count)]
        self._start()

    # ----- lifecycle -------------------------------------------------------------------------------------------

    def _make_task(self, partition: int, state: Any) -> Task:
        task = Task(self._topology, self._config, partition, now=self._now, state=state)
        task.context.on_drop = self.dropped_records.append
        if partition:  # every task has the rows of global tables, and the first one reports
            task.context.silent = frozenset(table.name for table in self._topology.global_tables)
        task.context.partition_counts = self.partition_count
        return task

    def _start(self) -> None:
        for task in self._tasks:
            self._route(task)
        self.drain()

    def restart(self, *, compact: bool) -> None:
        """Replaces the tasks by new ones, which restore their stores from the changelogs."""
        if compact:
            self._compact()
        states = [(self._changelogs_of(task.partition), task.cells()) for task in self._tasks]
        for task in self._tasks:
            self._dropped_before_restart.update(task.context.dropped)
            task.close()
        self._tasks = [self._make_task(partition, state) for partition, state in enumerate(states)]
        self._start()

    @property
    def default_partitions(self) -> int:
        """How many partitions the input topics have."""
        return self._partitions

    def take_over(self, former: DriverTasks) -> None:
        """Continues with the stores and times of the tasks of an earlier version, and with its offsets."""
        former.drain()
        self._next_offsets = former._next_offsets.copy()
        self._reused_records = {place: list(records) for place, records in former._reused_records.items()}
        names = {store.name for node in self._topology.plan.nodes for store in node.stores}
        for mine, theirs in zip(self._changelogs, former._changelogs, strict=False):
            mine.update((name, list(records)) for name, records in theirs.items() if name in names)
        cells = {task.partition: task.cells() for task in former._tasks}
        for task in self._tasks:
            task.close()
        self._tasks = [
            self._make_task(task.partition, (self._changelogs_of(task.partition), cells.get(task.partition, {})))
            for task in self._tasks
        ]
        self._start()

    def close(self) -> None:
        """Closes the tasks."""
        if not self._closed:
            self._closed = True
            for task in self._tasks:
                task.close()

    def check_running(self) -> None:
        """Raises an error if the tasks are closed or have failed."""
        if self._closed:
            raise RunError("the driver is closed")
        if self._failure is not None:
            raise RunError("the application has stopped because of an error") from self._failure

    # ----- topics ----------------------------------------------------------------------------------------------

    def has_topic(self, topic: str) -> bool:
        """Whether the application reads a topic or has written to it."""
        return topic in self.outputs or topic in self._partition_counts

    def partition_count(self, topic: str) -> int:
        """Returns the number of partitions of a topic."""
        return self._partition_counts.get(topic, self._partitions)

    def choose_partition(self, topic: str, key: bytes | None) -> int:
        """Returns the partition of a key; records without a key go to each partition in turn."""
        count = self.partition_count(topic)
        if key is None:
            self._unkeyed[topic] += 1
            return (self._unkeyed[topic] - 1) % count
        return partition_for(key, count)

    def next_offset(self, topic: str, partition: int) -> int:
        """Returns the next offset of a partition, and advances it."""
        self._next_offsets[topic, partition] += 1
        return self._next_offsets[topic, partition] - 1

    # ----- processing ------------------------------------------------------------------------------------------

    def deliver(self, topic: str, partition: int, record: InputRecord) -> None:
        """Adds a record to the input queues of the tasks that read it."""
        if topic in self._reused_topics:
            self._reused_records.setdefault((topic, partition), []).append(record)
        for task in self._tasks if topic in self.global_topics else [self._tasks[partition]]:
            self._guard(task.add, topic, [record])
            self._route(task)

    def drain(self) -> None:
        """Runs the tasks until no task can process another record."""
        working = True
        while working:
            working = False
            for task in self._tasks:
                while self._guard(task.step):
                    working = True
                    self._route(task)
        for task in self._tasks:
            for store, records in self._guard(task.changes).items():
                self._changelogs[task.partition].setdefault(store, []).extend(records)

    def advance_wall_clock(self, step: int) -> None:
        """Advances the wall clock, and runs the punctuators that are due."""
        self._now += step
        for task in self._tasks:
            self._guard(task.advance_wall_clock, self._now)
            self._route(task)
        self.drain()

    def _route(self, task: Task) -> None:
        """Appends the outputs of a task to their topics, and delivers those that the application reads."""
        for record in task.take_outputs():
            partition = record.partition
            if partition is None or partition < 0:
                partition = self.choose_partition(record.topic, record.key and record.key[:partition])
            self.outputs.setdefault(record.topic, []).append(record)
            offset = self.next_offset(record.topic, partition)
            if self._tasks[partition].queue(record.topic) is not None:
                read_back = InputRecord(offset, record.timestamp, record.key, record.value, record.headers)
                self.deliver(record.topic, partition, read_back)

    def _guard(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except MillstreamError as error:
            self._failure = error
            for task in self._tasks:  # the dead letters of the failed record
                for record in task.take_outputs():
                    self.outputs.setdefault(record.topic, []).append(record)
            raise

    # ----- state -----------------------------------------------------------------------------------------------

    def stores(self, name: str) -> list[Any]:
        """Returns the parts of a store that the tasks have; of a global store, which all tasks have whole, one."""
        parts = [task.context.stores[name] for task in self._tasks if name in task.context.stores]
        is_global = any(table.store.name == name for table in self._topology.global_tables)
        return parts[:1] if is_global else parts

    def dropped(self) -> dict[tuple[str, str], int]:
        """Returns the number of dropped records, by operator and reason."""
        total = Counter(self._dropped_before_restart)
        for task in self._tasks:
            total.update(task.context.dropped)
        return dict(total)

    def changelog(self, store: str) -> list[ChangelogRecord]:
        """Returns the changelog records of a store, of all partitions."""
        return [record for changelogs in self._changelogs for record in changelogs.get(store, [])]

    def _compact(self) -> None:
        for changelogs in self._changelogs:
            for name, records in changelogs.items():
                if self._topology.plan.store(name)[1].kind != "versioned":
                    last = {record.key: record for record in records}
                    changelogs[name] = [record for record in records if last[record.key] is record]

    def _changelogs_of(self, partition: int) -> dict[str, list[ChangelogRecord]]:
        """Returns the changelogs of a task. The changelog of a table may be its source topic."""
        changelogs = dict(self._changelogs[partition])
        for table in self._topology.plan.of_type(ToTable):
            if table.reuse_source and table.source_topic is not None:
                records = self._reused_records.get((table.source_topic, partition), [])
                changelogs[table.store.name] = [
                    ChangelogRecord(record.key, record.value, record.timestamp)
                    for record in records
                    if record.key is not None
                ]
        return changelogs
