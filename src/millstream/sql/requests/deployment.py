"""The protocol of a deployment: it runs the queries of a request handler, and gives it topics and rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from millstream.core.frozen import Frozen
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import PlannedQuery
from millstream.sql.queries.lookups import Bounds
from millstream.sql.syntax import tree

State = Literal["RUNNING", "PAUSED", "ERROR"]


class TopicInfo(Frozen):
    """A topic: ``consumers`` are the members of all groups that read it."""

    name: str
    partitions: int
    replicas: int = 1
    consumers: int = 0
    groups: int = 0


class TopicRecord(Frozen):
    """A record of a topic, as bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class NewRecord(Frozen):
    """A record that a request inserts, as bytes."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None


class TableRow(Frozen):
    """A committed row of a table.

    Attributes:
        key: The values of the key columns.
        value: The values of the value columns and of the columns with headers, by name.
        timestamp: The time of the record that the row comes from.
        window: Start and end of the window of the key.
    """

    key: tuple[Any, ...]
    value: dict[str, Any]
    timestamp: int
    window: tuple[int, int] | None = None

    @property
    def system_columns(self) -> dict[str, int]:
        """The columns that every row has: its time, and the bounds of its window."""
        columns = {ROWTIME: self.timestamp}
        if self.window is not None:
            columns[WINDOWSTART], columns[WINDOWEND] = self.window
        return columns


class MaterializedTable(Protocol):
    """The committed rows of a table. A reader sees each row as of one commit."""

    def get(self, key: tuple[Any, ...]) -> TableRow | None:
        """Returns the row of a key; the table has no windows."""
        ...

    def windows(self, key: tuple[Any, ...], start: Bounds, end: Bounds) -> Iterable[TableRow]:
        """Returns the rows of a key whose windows start and end within bounds, by ascending start."""
        ...

    def between(self, low: Any | None, high: Any | None) -> Iterable[TableRow]:
        """Returns the rows whose single key, a STRING or BYTES, is within a range, both ends included; no windows."""
        ...

    def scan(self) -> Iterable[TableRow]:
        """Returns all rows; the order is that of the bytes of the keys, where the store has one."""
        ...


class TransientQuery(Frozen):
    """A push query, or a pull query on a stream.

    Attributes:
        id: Its id.
        planned: The planned query; its value columns are all columns of the result.
        properties: The properties of the session.
        statement: The text of its statement.
        from_beginning: Whether it reads its topics from their beginnings; else it reads records that come from now on.
        until_now: Whether it ends after the records that its topics have when it starts.
    """

    id: str
    planned: PlannedQuery
    properties: dict[str, Any]
    statement: str
    from_beginning: bool
    until_now: bool = False


class ResultRow(Frozen):
    """A row of a transient query: the values of its columns; the row of a table that vanished is a tombstone."""

    values: tuple[Any, ...]
    tombstone: bool = False


class RunningTransient(Protocol):
    """A transient query that runs."""

    def poll(self, timeout: float) -> Sequence[ResultRow]:
        """Returns rows that have come, in their order; waits at most `timeout` seconds for the first.

        Raises:
            MillstreamError: The query failed.
        """
        ...

    @property
    def finished(self) -> bool:
        """Whether the query has ended, and `poll` has returned all its rows."""
        ...

    def stop(self) -> None:
        """Stops the query, and frees what it holds; further calls do nothing."""
        ...


class TopicReader(Protocol):
    """Reads a topic."""

    def poll(self, timeout: float) -> Sequence[TopicRecord]:
        """Returns the next committed records; waits at most `timeout` seconds for the first."""
        ...

    @property
    def at_end(self) -> bool:
        """Whether all records that the topic had when the reader was opened have been returned."""
        ...

    def close(self) -> None:
        """Frees what the reader holds; further calls do nothing."""
        ...


class StatementJournal(Protocol):
    """Records statements that change the catalog or a query, so that they hold after a restart."""

    def recording(
        self, statement: tree.Statement, properties: Mapping[str, Any], variables: Mapping[str, str]
    ) -> AbstractContextManager[None]:
        """Records a statement before the block carries it out; revokes it if the block fails."""
        ...


class Deployment(Protocol):
    """Runs the queries of a catalog, and holds its topics. A change has taken effect when its call returns."""

    # ----- persistent queries ----------------------------------------------------------------------------------------

    def start(self, query: PersistentQuery, environment: Environment, replaces: PersistentQuery | None = None) -> None:
        """Starts a query, and creates the topic of its sink if it does not exist.

        Args:
            query: The query.
            environment: What it was planned against.
            replaces: The query of the same id that it continues, with its state and from its committed offsets.

        Raises:
            MillstreamError: The query cannot run; nothing was started.
        """
        ...

    def terminate(self, query: PersistentQuery) -> None:
        """Stops a query for good, and deletes its state."""
        ...

    def pause(self, query: PersistentQuery) -> None:
        """Stops the processing of a query until it is resumed."""
        ...

    def resume(self, query: PersistentQuery) -> None:
        """Resumes a query."""
        ...

    def state(self, query: PersistentQuery) -> State:
        """Returns the state of a query."""
        ...

    def problem(self, query: PersistentQuery) -> str | None:
        """Returns the error that a query failed with."""
        ...

    # ----- tables ----------------------------------------------------------------------------------------------------

    def materialize(self, source: DataSource) -> None:
        """Makes a SOURCE TABLE readable by `table`."""
        ...

    def forget(self, source: DataSource) -> None:
        """Ends that: the SOURCE TABLE is dropped."""
        ...

    def table(self, source: DataSource) -> MaterializedTable:
        """Returns the rows of a table that a query writes, or of a SOURCE TABLE."""
        ...

    # ----- topics ----------------------------------------------------------------------------------------------------

    def topics(self) -> Sequence[TopicInfo]:
        """Returns all topics, internal ones included, by name."""
        ...

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        """Creates a topic unless it exists; without a number of partitions, one with the default number."""
        ...

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records, if it exists."""
        ...

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Appends records, all or none of them; one without a time has the clock's."""
        ...

    def read(self, topic: str, *, from_beginning: bool) -> TopicReader:
        """Returns a reader of a topic."""
        ...

    # ----- transient queries -----------------------------------------------------------------------------------------

    def run(self, query: TransientQuery, environment: Environment) -> RunningTransient:
        """Starts a transient query.

        Raises:
            MillstreamError: The query cannot run.
        """
        ...
