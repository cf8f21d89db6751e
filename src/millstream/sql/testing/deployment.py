"""The deployment of test files: topics in memory, and a test driver for each query."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.dsl.app import App
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.lowering.transient import add_transient, result_values
from millstream.sql.planner.environment import Environment
from millstream.sql.requests.deployment import (
    NewRecord,
    ResultRow,
    State,
    TopicInfo,
    TopicRecord,
    TransientQuery,
)
from millstream.sql.testing.engine import StoredRecord
from millstream.sql.testing.execution import CONFIG
from millstream.sql.testing.tables import TopicTable
from millstream.testing import TestDriver

if TYPE_CHECKING:
    from millstream.sql.testing.local import LocalEngine

_RESULT = "result"


class LocalDeployment:
    """Runs the queries of one engine; records flow through them as soon as they are appended."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._paused: dict[str, int] = {}

    # ----- persistent queries ----------------------------------------------------------------------------------------

    def start(self, query: PersistentQuery, environment: Environment, replaces: PersistentQuery | None = None) -> None:
        """Starts a query."""
        self._engine.add_query(query, environment, live=True)  # it takes the state of the query with its id

    def terminate(self, query: PersistentQuery) -> None:
        """Stops a query."""
        self._engine.remove_query(query.id)
        self._paused.pop(query.id, None)

    def pause(self, query: PersistentQuery) -> None:
        """Marks a query as paused."""
        self._paused[query.id] = 1

    def resume(self, query: PersistentQuery) -> None:
        """Marks a query as running."""
        self._paused.pop(query.id, None)

    def state(self, query: PersistentQuery) -> State:
        """Returns the state of a query."""
        return "PAUSED" if query.id in self._paused else "RUNNING"

    def problem(self, query: PersistentQuery) -> str | None:
        """Returns no error: an error of a test driver ends the case."""
        return None

    # ----- tables ----------------------------------------------------------------------------------------------------

    def materialize(self, source: DataSource) -> None:
        """Does nothing: every table can be read from its topic."""

    def forget(self, source: DataSource) -> None:
        """Does nothing."""

    def table(self, source: DataSource) -> TopicTable:
        """Returns the rows that a table has now."""
        serdes = SourceSerdes(self._engine.session.properties)
        return TopicTable(source, self._engine.records(source.topic), serdes, self._engine.registry)

    # ----- topics ----------------------------------------------------------------------------------------------------

    def topics(self) -> Sequence[TopicInfo]:
        """Returns the topics."""
        topics = [TopicInfo(topic.name, topic.partitions) for topic in self._engine.topics.values()]
        return sorted(topics, key=lambda topic: topic.name)

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        """Creates a topic."""
        self._engine.ensure_topic(name, partitions or 1)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        self._engine.delete_topic(name)

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Appends records."""
        now = int(time.time() * 1000)
        for record in records:
            time_of = now if record.timestamp is None else record.timestamp
            self._engine.process(StoredRecord(topic, record.key, record.value, time_of))

    def read(self, topic: str, *, from_beginning: bool) -> LocalReader:
        """Returns a reader of a topic."""
        start = 0 if from_beginning else len(self._engine.records(topic))
        return LocalReader(self._engine, topic, start)

    # ----- transient queries -----------------------------------------------------------------------------------------

    def run(self, query: TransientQuery, environment: Environment) -> LocalTransient:
        """Starts a transient query."""
        return LocalTransient(self._engine, query, environment)


class LocalReader:
    """Reads a topic of an engine."""

    def __init__(self, engine: LocalEngine, topic: str, start: int) -> None:
        self._engine = engine
        self._topic = topic
        self._next = start

    def poll(self, timeout: float) -> Sequence[TopicRecord]:
        """Returns the records that the topic has."""
        records = self._engine.records(self._topic)[self._next :]
        first = self._next
        self._next += len(records)
        return [
            TopicRecord(self._topic, 0, first + index, item.key, item.value, item.timestamp, item.headers)
            for index, item in enumerate(records)
        ]

    @property
    def at_end(self) -> bool:
        """Whether all records have been returned."""
        return self._next >= len(self._engine.records(self._topic))

    def close(self) -> None:
        """Does nothing."""


class LocalTransient:
    """A transient query in a test driver. It ends when it has processed all records that there are."""

    def __init__(self, engine: LocalEngine, query: TransientQuery, environment: Environment) -> None:
        self._engine = engine
        self._topics = tuple(dict.fromkeys(source.topic for source in query.planned.sources))
        self._next = {topic: 0 if query.from_beginning else len(engine.records(topic)) for topic in self._topics}
        app = App("sql-query", config=CONFIG)
        lowering = QueryLowering(app, environment, SourceSerdes(query.properties))
        serde = add_transient(lowering, query.planned, _RESULT)
        self._driver = TestDriver(app, registry=engine.registry)
        self._output = self._driver.output(_RESULT, key=bytes, value=serde)
        self._inputs = {topic: self._driver.input(topic, key=bytes, value=bytes) for topic in self._topics}
        self._stopped = False

    def poll(self, timeout: float) -> Sequence[ResultRow]:
        """Processes the next records until there is a row."""
        rows: list[ResultRow] = []
        while not rows and not self._stopped and (topic := self._earliest()) is not None:
            record = self._engine.records(topic)[self._next[topic]]
            self._next[topic] += 1
            self._inputs[topic].pipe(record.key, record.value, timestamp=record.timestamp, headers=record.headers)
            rows = list(self._results())
        return rows

    def _results(self) -> Iterator[ResultRow]:
        for item in self._output.read_all():
            values, tombstone = result_values(item.value)
            yield ResultRow(values, tombstone=tombstone)

    def _earliest(self) -> str | None:
        """The topic whose next record is the oldest: Kafka Streams takes that one."""
        waiting = [topic for topic in self._topics if self._next[topic] < len(self._engine.records(topic))]
        return min(waiting, key=lambda topic: self._engine.records(topic)[self._next[topic]].timestamp, default=None)

    @property
    def finished(self) -> bool:
        """Whether there are no more records."""
        return self._stopped or self._earliest() is None

    def stop(self) -> None:
        """Stops the query."""
        self._stopped = True
