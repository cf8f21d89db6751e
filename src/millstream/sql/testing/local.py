"""The engine of test files: a session, topics in memory, and a test driver for each query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.core.records import Windowed
from millstream.registry.api import Schema
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from millstream.sql.formats import derived_schema, format_of, subject_of
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.planner.environment import Environment
from millstream.sql.requests import errors as requests
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession, is_known
from millstream.sql.requests.rows import ProtobufRows, final_row, header, row_entity
from millstream.sql.statements.insert import evaluated, inserted_row, target_of
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree
from millstream.sql.testing import payloads
from millstream.sql.testing.case_topics import PARTITIONS, case_topics
from millstream.sql.testing.cases import Record, Topic
from millstream.sql.testing.deployment import LocalDeployment
from millstream.sql.testing.engine import Decoded, RequestError, StoredRecord
from millstream.sql.testing.execution import QueryDriver
from millstream.sql.testing.functions import test_catalogue
from millstream.sql.testing.messages import message_text

_BASE = {"auto.offset.reset": "earliest", "ksql.query.push.v2.enabled": "true"}
"""The properties that the suite sets for all cases."""


def _nothing() -> None:
    """The default of what happens when a query has started."""


class LocalEngine:
    """Runs the statements of one case.

    Attributes:
        session: Executes definitions.
        registry: The schema registry of the case.
        handler: Answers requests; records flow through all queries as soon as they are inserted.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.registry = payloads.new_registry()
        rules = SchemaRules(payloads.inference(self.registry))
        self.session = Session(rules, {**_BASE, **properties}, test_catalogue(), partitions=self._partitions)
        self._topics: dict[str, Topic] = {}
        self._records: dict[str, list[StoredRecord]] = {}
        self._environments: dict[str, Environment] = {}
        self._live: dict[str, QueryDriver] = {}
        self.handler = RequestHandler(self.session, LocalDeployment(self), self.registry.reference)

    @property
    def sources(self) -> Mapping[str, DataSource]:
        """The streams and tables."""
        return self.session.catalog.sources

    @property
    def queries(self) -> Sequence[PersistentQuery]:
        """The persistent queries, in the order of their creation."""
        return list(self.session.catalog.queries.values())

    # ----- topics ----------------------------------------------------------------------------------------------------

    def create_topics(
        self,
        given: Sequence[Topic],
        statements: Sequence[tree.Statement],
        named: Sequence[str],
        partitions: int = PARTITIONS,
    ) -> None:
        """Creates topics and registers their schemas."""
        found = case_topics(given, statements, named, partitions, self.session.properties, self.session.schemas)
        for made in found:
            self._topics[made.topic.name] = made.topic
            payloads.register_topic(self.registry, made)

    def ensure_topic(self, name: str, partitions: int) -> None:
        """Creates a topic if it does not exist."""
        self._topics.setdefault(name, Topic(name=name, partitions=partitions))

    def schema(self, source: DataSource, *, is_key: bool) -> Schema | None:
        """Returns the newest schema of the keys or values of a source's topic, None if its format has none."""
        format_, columns = (source.key_format, source.key) if is_key else (source.value_format, source.value)
        if not columns or not format_of(format_.name).infers:
            return None
        subject = subject_of(source.topic, is_key=is_key)
        if subject in self.registry.subjects():
            return self.registry.latest(subject).schema
        return derived_schema(format_, columns, is_key=is_key)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics."""
        return self._topics

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records."""
        self._topics.pop(name, None)
        self._records.pop(name, None)

    def topic(self, name: str) -> Topic | None:
        """Returns a topic."""
        return self._topics.get(name)

    def _partitions(self, topic: str) -> int | None:
        known = self._topics.get(topic)
        return None if known is None else known.partitions

    def append(self, record: StoredRecord) -> None:
        """Appends a record to its topic."""
        self._records.setdefault(record.topic, []).append(record)

    def records(self, topic: str) -> Sequence[StoredRecord]:
        """All records ever written to a topic."""
        return self._records.get(topic, [])

    def _owner(self, topic: str) -> DataSource | None:
        return next((source for source in self.sources.values() if source.topic == topic), None)

    def encode(self, record: Record) -> StoredRecord:
        """Encodes a record of a test file by the formats of the source that owns its topic."""
        return payloads.encode_record(record, self._owner(record.topic), self.registry)

    def decode(self, record: StoredRecord) -> Decoded:
        """Decodes a record by the formats of the source that owns its topic."""
        return payloads.decode_record(record, self._owner(record.topic), self.registry)

    # ----- statements ------------------------------------------------------------------------------------------------

    def execute(self, statement: tree.Statement, *, live: bool = False) -> None:
        """Executes a statement."""
        if isinstance(statement, tree.InsertValues):
            self._insert(statement, live=live)
            return
        environment = self.session.environment
        query = self.session.execute(statement)
        if query is not None:
            self.ensure_topic(query.sink.topic, query.sink.partitions or PARTITIONS)
            self.add_query(query, environment, live=live)
        if live:
            self._live = {key: driver for key, driver in self._live.items() if key in self.session.catalog.queries}

    def add_query(self, query: PersistentQuery, environment: Environment, *, live: bool) -> None:
        """Adds a query; refuses one that cannot run. It continues with the state of the query that it replaces."""
        self._environments[query.id] = environment
        driver = self.driver(query, self._live.get(query.id))
        if live:
            self._live[query.id] = driver

    def remove_query(self, query_id: str) -> None:
        """Takes a query away."""
        self._environments.pop(query_id, None)
        self._live.pop(query_id, None)

    def driver(self, query: PersistentQuery, former: QueryDriver | None = None) -> QueryDriver:
        """Returns a new driver of a query, which continues with the state of the driver that it replaces."""
        return QueryDriver(query, self._environments[query.id], self.registry, self.append, former)

    def internal_topics(self) -> Sequence[str]:
        """The names of repartition and changelog topics of all queries."""
        return [topic for query in self.queries for topic in self.driver(query).internal_topics]

    def _insert(self, statement: tree.InsertValues, *, live: bool) -> None:
        source = target_of(statement, self.session.catalog.sources)
        key, value, timestamp = inserted_row(statement, source, self.session.environment)
        serdes = SourceSerdes(self.session.properties)
        record = StoredRecord(
            source.topic,
            payloads.bound(serdes.key(source), source.topic, self.registry, is_key=True).serialize(key),
            payloads.bound(serdes.value(source), source.topic, self.registry, is_key=False).serialize(value),
            int(time.time() * 1000) if timestamp is None else timestamp,
        )
        self.write(record, live=live)

    def write(self, record: StoredRecord, *, live: bool) -> None:
        """Appends a record to its topic; with ``live``, all queries process it."""
        self.append(record)
        if live:
            self._flow(record)

    def _flow(self, record: StoredRecord) -> None:
        """Processes a record in every query that reads its topic, and what they write likewise."""
        for driver in list(self._live.values()):
            if record.topic in driver.query.topics:
                for written in driver.process(record):
                    self._flow(written)

    # ----- SQL test files --------------------------------------------------------------------------------------------

    def row(self, source: DataSource, record: StoredRecord) -> dict[str, Any] | None:
        """Decodes a record into a row."""
        serdes = SourceSerdes(self.session.properties)
        key = payloads.bound(serdes.key(source), source.topic, self.registry, is_key=True).deserialize(record.key)
        value = payloads.bound(serdes.value(source), source.topic, self.registry, is_key=False).deserialize(
            record.value
        )
        row: dict[str, Any] = {ROWTIME: record.timestamp}
        if isinstance(key, Windowed):
            row[WINDOWSTART], row[WINDOWEND] = key.start, key.end
            key = key.key
        parts = (key,) if len(source.key) == 1 else key or (None,) * len(source.key)
        row.update(zip((column.name for column in source.key), parts, strict=True))
        row.update(value or dict.fromkeys(column.name for column in source.value))
        return row

    def values(
        self, source: DataSource, columns: Sequence[str], expressions: Sequence[tree.Expression]
    ) -> dict[str, Any]:
        """Evaluates expressions and converts them to the types of columns."""
        return evaluated(source, columns, expressions, self.session.environment)

    # ----- ksqlDB's API ----------------------------------------------------------------------------------------------

    def process(self, record: StoredRecord) -> None:
        """Appends a record to its topic, and all queries process it."""
        self.write(record, live=True)

    def request_statements(self, text: str, properties: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Sends statements to ``/ksql``."""
        try:
            return self.handler.statements(text, _request(properties))
        except requests.RequestError as error:
            raise _refused(error) from error

    def request_query(
        self, text: str, properties: Mapping[str, Any], *, proto: bool = False, started: Callable[[], None] = _nothing
    ) -> list[dict[str, Any]]:
        """Sends a query to ``/query``."""
        try:
            answer = self.handler.query(text, _request(properties))
        except requests.RequestError as error:
            raise _refused(error) from error
        started()
        messages = ProtobufRows(answer) if proto else None
        rows = [header(answer) if messages is None else messages.header()]
        while not answer.finished:
            for row in answer.poll():
                if messages is None:
                    rows.append(row_entity(answer, row))
                else:
                    rows.append(message_text(messages.row_entity(row), messages.schema))
        answer.close()
        last = final_row(answer)
        return rows if last is None else [*rows, last]


def _request(properties: Mapping[str, Any]) -> RequestSession:
    """The session of a request; properties of ksqlDB that no request of ours can set are only those of the engine."""
    return RequestSession(
        {name: value for name, value in properties.items() if is_known(name) or not name.startswith("ksql.")}
    )


def _refused(error: requests.RequestError) -> RequestError:
    kind = "KsqlErrorMessage" if error.statement is None else "KsqlStatementErrorMessage"
    return RequestError(error.message, type_=kind, status=error.status, statement=error.statement)
