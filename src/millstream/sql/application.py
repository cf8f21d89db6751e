"""SQL in an application: the statements of a script become one topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from millstream.core.callsite import called_from, caller
from millstream.dsl.app import App
from millstream.dsl.internals import internals_of
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.errors import MillstreamError, SqlError, SqlStatementError, TopologyError
from millstream.sql.catalog.recorded import recorded
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.definitions import check_definition
from millstream.sql.formats import FormatSerde, inferred_columns
from millstream.sql.functions.user import user_catalogue
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.planner.query import plan_query
from millstream.sql.planner.steps import Kind
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.session import Session
from millstream.sql.syntax import parse_script, parse_statement, tree
from millstream.sql.types import BIGINT, DOUBLE, INTEGER, STRING, SqlType

T = TypeVar("T")
_PYTHON_KEYS: dict[SqlType, str] = {STRING: "string", BIGINT: "long", INTEGER: "integer", DOUBLE: "double"}
"""The names of the serdes of Python with the bytes of the format KAFKA, by type."""


class _RegisteredColumns:
    """Finds columns in the schema registry that the application is configured with."""

    def __init__(self, app: App) -> None:
        self._app = app

    def columns(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> tuple[Column, ...]:
        """Returns the columns of the schema of a topic."""
        from millstream.registry.api import open_registry  # noqa: PLC0415  (most scripts list their columns)

        try:
            registry = open_registry(self._app.config)
            try:
                return inferred_columns(format_, topic, registry, is_key=is_key, at=at)
            finally:
                registry.close()
        except SqlError:
            raise
        except MillstreamError as error:
            raise SqlStatementError(error.message, hint=error.hint or "or list the columns", at=at) from error

    def written(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> None:
        """Leaves the schema to the start of the application, which asks the registry."""


class SqlTopology:
    """The SQL part of an application: its catalog, and the queries that it has added."""

    def __init__(self, app: App) -> None:
        self.session = Session(SchemaRules(_RegisteredColumns(app)), functions=user_catalogue())
        self.lowering = QueryLowering(app, self.session.environment, SourceSerdes(self.session.properties))
        self._added: set[str] = set()
        self._read = 0

    def add(self, text: str, source: str | None = None) -> None:
        """Adds the statements of a script; ``source`` is the name of its file.

        Raises:
            SqlError: A statement is invalid, or is no definition; with the line and the place.
        """
        self.session.functions = user_catalogue()  # functions may have been added since the last script
        try:
            statements = list(parse_script(text))
            self._connect(statements)
            for statement in statements:
                with called_from(_place(statement, source)):
                    self._add(statement)
        except SqlError as error:
            raise error.mark(text) from None
        internals_of(self.lowering.app).builder.definitions.update(recorded(self.session.catalog))

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
        check_definition(statement)
        query = self.session.execute(statement)
        if query is None:
            return
        if query.id in self._added:
            raise SqlStatementError(
                f"{query.sink.name} is already part of the application",
                hint="change the first statement: an application continues with its state when it is started again",
                at=statement.at,
            )
        self._added.add(query.id)
        self._lower(query.properties, lambda: self.lowering.add(query), statement)

    def _lower(self, properties: Mapping[str, Any], add: Callable[[], T], statement: tree.Statement) -> T:
        self.lowering.environment = self.session.environment
        self.lowering.serdes = SourceSerdes(properties)
        try:
            return add()
        except TopologyError as error:
            raise SqlStatementError(error.message, hint=error.hint, at=statement.at) from error

    def rows(self, text: str, kind: Kind) -> Any:
        """Returns the rows of a SELECT as a stream or table.

        Raises:
            SqlError: The statement is invalid, is no SELECT, or has the other kind of result.
        """
        self.session.functions = user_catalogue()
        try:
            statement = parse_statement(text if text.rstrip().endswith(";") else f"{text};")
            with called_from(_place(statement, None)):
                return self._rows(statement, kind)
        except SqlError as error:
            raise error.mark(text) from None

    def _rows(self, statement: tree.Statement, kind: Kind) -> Any:
        if not isinstance(statement, tree.Select):
            raise SqlStatementError(
                "this is not a query", hint="write SELECT … FROM …; app.sql takes other statements", at=statement.at
            )
        if statement.query.limit is not None:
            raise SqlStatementError("a query of an application has no LIMIT: it does not end", at=statement.at)
        planned = plan_query(statement.query, self.session.environment, persistent=False)
        if planned.root.kind != kind:
            right = "table_from_sql" if kind == "STREAM" else "stream_from_sql"
            raise SqlStatementError(
                f"the query makes a {planned.root.kind.lower()}, not a {kind.lower()}",
                hint=f"use {right}",
                at=statement.at,
            )
        self._read += 1
        name = f"sql-{self._read}"
        rows = self._lower(self.session.properties, lambda: self.lowering.add_rows(planned, name), statement)
        return _with_python_keys(rows)


def _with_python_keys(rows: Stream[Any, Any] | Table[Any, Any]) -> Any:
    """Declares keys that have the bytes of a serde of Python as such, so that operators in Python can join them."""
    output = internals_of(rows)
    key = output.key
    if not isinstance(key, FormatSerde) or key.spec.name != "KAFKA" or len(key.columns) != 1:
        return rows
    python = _PYTHON_KEYS.get(key.columns[0].type)
    return rows if python is None else type(rows)(output.declared(python, None))


def _place(statement: tree.Statement, source: str | None) -> str:
    """Returns the place of a statement, for messages about operators: ``shop.sql:3``."""
    line, _column = statement.at
    return f"{caller()}, line {line} of the SQL" if source is None else f"{source}:{line}"


def _sql_of(app: App) -> SqlTopology:
    parts = internals_of(app).builder.front_ends
    if "sql" not in parts:
        parts["sql"] = SqlTopology(app)
    part = parts["sql"]
    assert isinstance(part, SqlTopology)
    return part


def add_sql(app: App, text: str, source: str | None = None) -> None:
    """Adds the statements of a script to an application; later scripts see the streams and tables of earlier ones."""
    _sql_of(app).add(text, source)


def rows_of(app: App, text: str, kind: Kind) -> Any:
    """Returns the rows of a SELECT as a stream or table of the application."""
    return _sql_of(app).rows(text, kind)
