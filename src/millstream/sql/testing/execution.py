"""Runs one persistent query of a test in the test driver; records are bytes."""

from __future__ import annotations

from collections.abc import Callable

from millstream.dsl.app import App
from millstream.engine.errors import Answer, ErrorContext
from millstream.plan.stateless import Repartition
from millstream.registry.api import SchemaRegistry
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.timestamps import InvalidTimestampError
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.planner.environment import Environment
from millstream.sql.testing.engine import StoredRecord
from millstream.testing import TestDriver


def _skip_unreadable(_context: ErrorContext, error: BaseException) -> Answer:
    """Skips records that cannot be read, unless their time is at fault and the query must not go on without it."""
    return "fail" if isinstance(error, InvalidTimestampError) else "continue"


CONFIG = {"deserialization.exception.handler": _skip_unreadable}
"""Records that cannot be read are skipped."""


class QueryDriver:
    """Runs one persistent query, record by record.

    Attributes:
        query: The query.
        append: Writes a record to its topic.
        former: The driver of the query that this one replaces: its state is kept.
    """

    def __init__(
        self,
        query: PersistentQuery,
        environment: Environment,
        registry: SchemaRegistry,
        append: Callable[[StoredRecord], None],
        former: QueryDriver | None = None,
    ) -> None:
        self.query = query
        self.append = append
        app = App("sql-test", config=CONFIG)
        QueryLowering(app, environment, SourceSerdes(query.properties)).add(query)
        self._driver: TestDriver = TestDriver(app, registry=registry) if former is None else former._driver.upgrade(app)
        self._output = self._driver.output(query.sink.topic, key=bytes, value=bytes)
        self._inputs = {topic: self._driver.input(topic, key=bytes, value=bytes) for topic in query.topics}

    def pipe(self, record: StoredRecord) -> None:
        """Processes a record, and appends what the query writes to its topic."""
        self.process(record)

    def process(self, record: StoredRecord) -> list[StoredRecord]:
        """Does the same, and returns what the query wrote."""
        self._inputs[record.topic].pipe(record.key, record.value, timestamp=record.timestamp, headers=record.headers)
        written = [
            StoredRecord(self.query.sink.topic, item.key, item.value, item.timestamp, item.headers)
            for item in self._output.read_all()
        ]
        for item in written:
            self.append(item)
        return written

    @property
    def internal_topics(self) -> list[str]:
        """The names of the repartition topics of the query."""
        topology = self._driver.topology
        return [topology.topic_of(node) for node in topology.plan.of_type(Repartition)]
