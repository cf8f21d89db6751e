"""The catalog: what statements have defined so far."""

from __future__ import annotations

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError, suggestion
from millstream.sql.catalog.sources import DataSource
from millstream.sql.planner.steps import PlannedQuery
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType


class PersistentQuery(Frozen):
    """A query that runs until it is terminated.

    Attributes:
        id: Its id: CSAS_NAME_1, CTAS_NAME_2, INSERTQUERY_3.
        planned: The planned query.
        sink: The stream or table that it writes.
        properties: The properties of the session when the query was created.
        statement: The text of its statement.
        name: What the names of its operators begin with. Statements about other streams and tables do not change it.
    """

    id: str
    planned: PlannedQuery
    sink: DataSource
    properties: dict[str, object]
    statement: str
    name: str

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the query reads."""
        return tuple(dict.fromkeys(source.topic for source in self.planned.sources))


class Catalog:
    """Streams, tables, types and queries, by name."""

    def __init__(self) -> None:
        self.sources: dict[str, DataSource] = {}
        self.types: dict[str, SqlType] = {}
        self.queries: dict[str, PersistentQuery] = {}
        self._numbers = 0

    def copy(self) -> Catalog:
        """Returns a catalog with the same contents, which changes by itself."""
        catalog = Catalog()
        catalog.restore(self)
        return catalog

    def restore(self, other: Catalog) -> None:
        """Takes over the contents of another catalog."""
        self.sources = dict(other.sources)
        self.types = dict(other.types)
        self.queries = dict(other.queries)
        self._numbers = other._numbers

    def next_number(self) -> int:
        """Returns the running number of a new query."""
        self._numbers += 1
        return self._numbers

    def source(self, name: str, at: tree.Position) -> DataSource:
        """Returns a stream or table.

        Raises:
            SqlStatementError: There is none of that name.
        """
        if name not in self.sources:
            raise SqlStatementError(f"Source {name} does not exist.", hint=suggestion(name, self.sources), at=at)
        return self.sources[name]

    def readers(self, name: str) -> list[str]:
        """The ids of the queries that read a source."""
        return [
            query.id for query in self.queries.values() if any(source.name == name for source in query.planned.sources)
        ]

    def insert_name(self, target: str) -> str:
        """Returns the name of the next query that inserts into a stream; no stream has a name with a full stop."""
        name = f"{target}.insert"
        number = 1 + sum(query.name.startswith(name) for query in self.queries.values())
        return name if number == 1 else f"{name}-{number}"

    def writers(self, name: str) -> list[str]:
        """The ids of the queries that write a source."""
        return [query.id for query in self.queries.values() if query.sink.name == name]
