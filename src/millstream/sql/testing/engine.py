"""The engine of test files, as their runner uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from millstream.core.frozen import Frozen
from millstream.errors import MillstreamError
from millstream.registry.api import Schema
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.syntax.tree import Expression, Statement
from millstream.sql.testing.cases import Record, Topic, Window


class UnsupportedError(MillstreamError):
    """An engine lacks something that a case needs: the case is reported as skipped, with the reason."""

    code = "unsupported"


class RequestError(MillstreamError):
    """A request to ksqlDB's API was refused: the type of its error message, the status, and the statement."""

    code = "request"

    def __init__(self, message: str, *, type_: str, status: int, statement: str | None = None) -> None:
        super().__init__(message)
        self.type = type_
        self.status = status
        self.statement = statement


class StoredRecord(Frozen):
    """A record in a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Decoded(Frozen):
    """A record of a topic, decoded by the formats of the topic's source into plain values, not into a row."""

    key: Any
    value: Any
    window: Window | None = None


class Driver(Protocol):
    """Runs one query."""

    def pipe(self, record: StoredRecord) -> None:
        """Processes a record completely, and appends what the query writes to the topics.

        Raises:
            MillstreamError: The query failed.
        """
        ...


class Engine(Protocol):
    """A fresh engine for one case, with the base configuration of the test tool and the properties of the case."""

    @property
    def sources(self) -> Mapping[str, DataSource]:
        """The streams and tables."""
        ...

    @property
    def queries(self) -> Sequence[PersistentQuery]:
        """The persistent queries, in the order of their creation."""
        ...

    def create_topics(
        self, given: Sequence[Topic], statements: Sequence[Statement], named: Sequence[str], partitions: int = 4
    ) -> None:
        """Creates topics and registers their schemas, before any statement runs.

        Args:
            given: The topics that the case lists.
            statements: The statements, which name topics and columns.
            named: The topics of the records.
            partitions: The partitions of a topic for which the case gives no number.
        """
        ...

    def execute(self, statement: Statement, *, live: bool = False) -> None:
        """Executes a statement. INSERT VALUES writes to its topic.

        With ``live``, each query starts when it is created, and each record that INSERT VALUES writes goes through
        all queries at once, also through those that read what others write.

        Raises:
            SqlError: The statement is invalid.
        """
        ...

    def encode(self, record: Record) -> StoredRecord:
        """Encodes a record of a test file by the formats of the source that owns its topic."""
        ...

    def append(self, record: StoredRecord) -> None:
        """Appends a record to its topic."""
        ...

    def records(self, topic: str) -> Sequence[StoredRecord]:
        """All records ever written to a topic."""
        ...

    def decode(self, record: StoredRecord) -> Decoded:
        """Decodes a record by the formats of the source that owns its topic; a windowed key has its window."""
        ...

    def driver(self, query: PersistentQuery) -> Driver:
        """Returns a new driver of a query."""
        ...

    def internal_topics(self) -> Sequence[str]:
        """The names of repartition and changelog topics of all queries; the first end in ``-repartition``."""
        ...

    def topic(self, name: str) -> Topic | None:
        """Returns a topic; None if it does not exist."""
        ...

    def schema(self, source: DataSource, *, is_key: bool) -> Schema | None:
        """Returns the newest schema of the keys or values of a source's topic, None if its format has none."""
        ...

    # ----- SQL test files --------------------------------------------------------------------------------------------

    def row(self, source: DataSource, record: StoredRecord) -> dict[str, Any] | None:
        """Decodes a record into a row: its columns, ROWTIME and the window's bounds. A tombstone has key columns."""
        ...

    def values(self, source: DataSource, columns: Sequence[str], expressions: Sequence[Expression]) -> dict[str, Any]:
        """Evaluates expressions and converts them to the types of columns, as INSERT VALUES does."""
        ...

    # ----- ksqlDB's API ----------------------------------------------------------------------------------------------

    def process(self, record: StoredRecord) -> None:
        """Appends a record to its topic; all queries that requests have started process it, and what others write."""
        ...

    def request_statements(self, text: str, properties: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Sends statements to ``/ksql`` and returns the entities of the response.

        Raises:
            RequestError: The request was refused.
        """
        ...

    def request_query(
        self, text: str, properties: Mapping[str, Any], *, proto: bool = False, started: Callable[[], None] = ...
    ) -> list[dict[str, Any]]:
        """Sends a query to ``/query`` and returns the rows of the response; a push query ends at its limit.

        ``started`` is called when the query runs, before its first row is read.

        Raises:
            RequestError: The request was refused.
        """
        ...


class EngineFactory(Protocol):
    """Makes engines."""

    def __call__(self, properties: Mapping[str, Any]) -> Engine:
        """Returns a fresh engine."""
        ...
