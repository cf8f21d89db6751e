"""SQL in an application: the statements of a script become one topology."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from millstream.dsl.app import App
from millstream.errors import SqlError, SqlStatementError, TopologyError
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.functions.user import user_catalogue
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.session import Session
from millstream.sql.syntax import parse_script, tree

DEFINITIONS = (
    tree.CreateSource,
    tree.CreateAs,
    tree.InsertInto,
    tree.CreateType,
    tree.SetProperty,
    tree.UnsetProperty,
    tree.Define,
    tree.Undefine,
)
"""The statements of a script that an application runs. The others have effects, and a start is no place for effects."""


class _ListedColumns:
    """Refuses statements without columns: a topology is built without asking a schema registry."""

    def columns(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> tuple[Column, ...]:
        """Refuses to find columns."""
        side = "key" if is_key else "value"
        raise SqlStatementError(
            f"the columns of the {side} of topic {topic!r} are not listed",
            hint=f"list them: an application does not read the {format_.name} schemas of a registry when it is built",
            at=at,
        )

    def written(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> None:
        """Leaves the schema to the start of the application, which asks the registry."""


class SqlTopology:
    """The SQL part of an application: its catalog, and the queries that it has added."""

    def __init__(self, app: App) -> None:
        self.session = Session(SchemaRules(_ListedColumns()), functions=user_catalogue())
        self.lowering = QueryLowering(app, self.session.environment, SourceSerdes(self.session.properties))

    def add(self, text: str) -> None:
        """Adds the statements of a script.

        Raises:
            SqlError: A statement is invalid, or is no definition; with the line and the place.
        """
        try:
            statements = list(parse_script(text))
            self._connect(statements)
            for statement in statements:
                self._add(statement)
        except SqlError as error:
            raise error.mark(text) from None

    def _connect(self, statements: Sequence[tree.Statement]) -> None:
        """Lets queries take the results of those queries of the script that are the only ones to write them."""
        for statement in statements:
            if isinstance(statement, tree.InsertInto) and statement.target in self.lowering.connected:
                raise SqlStatementError(
                    f"{statement.target} was created in an earlier script, whose queries may read it directly",
                    hint="put the INSERT INTO into the script that creates the stream",
                    at=statement.at,
                )
        inserted = {statement.target for statement in statements if isinstance(statement, tree.InsertInto)}
        created = {statement.name for statement in statements if isinstance(statement, tree.CreateAs)}
        self.lowering.connected |= created - inserted

    def _add(self, statement: tree.Statement) -> None:
        if not isinstance(statement, DEFINITIONS):
            words = " ".join(statement.text.split()[:2]).rstrip(";").upper()
            raise SqlStatementError(
                f"{words} is not a definition, and cannot be part of an application",
                hint="an application has CREATE, CREATE … AS SELECT, INSERT INTO … SELECT, SET and DEFINE",
                at=statement.at,
            )
        query = self.session.execute(statement)
        if query is None:
            return
        self.lowering.environment = self.session.environment
        self.lowering.serdes = SourceSerdes(query.properties)
        try:
            self.lowering.add(query)
        except TopologyError as error:
            raise SqlStatementError(error.message, hint=error.hint, at=statement.at) from error


_TOPOLOGIES: WeakKeyDictionary[App, SqlTopology] = WeakKeyDictionary()


def add_sql(app: App, text: str) -> None:
    """Adds the statements of a script to an application; later scripts see the streams and tables of earlier ones."""
    if app not in _TOPOLOGIES:
        _TOPOLOGIES[app] = SqlTopology(app)
    _TOPOLOGIES[app].add(text)
