"""The request handler of ksqlDB's API: statements in; entities, rows and errors out. A server binds routes to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from millstream.errors import MillstreamError, SqlError, SqlStatementError
from millstream.schemas.registries import ApplicationRegistry
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.requests.answers import Answer
from millstream.sql.requests.assertions import assert_schema, assert_topic
from millstream.sql.requests.changes import Changes
from millstream.sql.requests.deployment import Deployment, StatementJournal
from millstream.sql.requests.effects import effect_of
from millstream.sql.requests.entities import Entity
from millstream.sql.requests.errors import BAD_REQUEST, BAD_STATEMENT, QUERY_ENDPOINT, RequestError
from millstream.sql.requests.explain import explain
from millstream.sql.requests.inspection import Inspection
from millstream.sql.requests.printing import PrintedTopic
from millstream.sql.requests.properties import RequestSession
from millstream.sql.requests.queries import Queries
from millstream.sql.statements.session import Session
from millstream.sql.syntax import parse_script, tree

Permit = Callable[[Sequence[tree.Statement]], None]
"""Raises an error if the sender of statements may not execute all of them."""


class RequestHandler:
    """Answers requests. Several threads may call it: statements take turns, except those that wait for something.

    Attributes:
        session: The catalog, and the properties that hold unless a request sets others.
        deployment: What runs the queries.
        registry: The schema registry.
        journal: Records the statements that change something.
    """

    def __init__(
        self,
        session: Session,
        deployment: Deployment,
        registry: ApplicationRegistry | None = None,
        journal: StatementJournal | None = None,
    ) -> None:
        self.journal = journal
        self._turn = threading.RLock()
        self.session = session
        self.deployment = deployment
        self.registry = registry

    def statements(
        self, text: str, request: RequestSession | None = None, permit: Permit | None = None
    ) -> list[Entity]:
        """Executes the statements of a request to ``/ksql``, and returns their entities.

        All statements are parsed and checked, each against what those before it will have changed, before the first
        one is executed. SET and DEFINE change the `request`.

        Args:
            text: The statements.
            request: Their properties and variables.
            permit: Raises an error for statements that the sender may not execute.

        Raises:
            RequestError: A statement is invalid or cannot be executed; with the entities of those before it.
        """
        request = RequestSession() if request is None else request
        parsed = self.parse(text, request, permit)
        self._run(parsed, request.copy(), check_only=True)
        return self._run(parsed, request, check_only=False)

    def query(self, text: str, request: RequestSession | None = None, permit: Permit | None = None) -> Answer:
        """Starts the query of a request to ``/query``, and returns its answer, which must be closed.

        Raises:
            RequestError: The query is invalid, or cannot run.
        """
        request = RequestSession() if request is None else request
        parsed = self.parse(text, request, permit)
        statement = parsed[0] if len(parsed) == 1 else None
        if not isinstance(statement, tree.Select):
            raise RequestError("A request to /query has one SELECT statement", hint="send other statements to /ksql")
        try:
            with self._turn:
                return Queries(self.session_of(request), self.deployment).select(statement)
        except MillstreamError as error:
            raise refused(error, statement.text) from error

    def print_topic(
        self, text: str, request: RequestSession | None = None, permit: Permit | None = None
    ) -> PrintedTopic:
        """Starts the PRINT of a request to ``/query``, and returns the lines, which must be closed.

        Raises:
            RequestError: The text is no PRINT, or there is no such topic.
        """
        request = RequestSession() if request is None else request
        parsed = self.parse(text, request, permit)
        statement = parsed[0] if len(parsed) == 1 else None
        if not isinstance(statement, tree.Print):
            raise RequestError("the request has one PRINT statement")
        session = self.session_of(request)
        serdes = SourceSerdes(session.properties)
        try:
            with self._turn:
                return PrintedTopic(statement, session.catalog.sources.values(), self.deployment, serdes, self.registry)
        except MillstreamError as error:
            raise refused(error, statement.text) from error

    def parse(self, text: str, request: RequestSession, permit: Permit | None = None) -> list[tree.Statement]:
        """Parses the statements of a request, and has `permit` check them.

        Raises:
            RequestError: The text is invalid, or a statement is not permitted.
        """
        try:
            statements = parse_script(text, request.variables)
        except SqlError as error:
            raise refused(error, text) from error
        if permit is not None:
            permit(statements)
        return statements

    def session_of(self, request: RequestSession) -> Session:
        """Returns the session of a request: the catalog, with the properties of the request over the server's."""
        return self.session.with_properties({**self.session.properties, **request.properties})

    def _run(self, statements: list[tree.Statement], request: RequestSession, *, check_only: bool) -> list[Entity]:
        entities: list[Entity] = []
        with self._turn:
            catalog = self.session.catalog.copy() if check_only else self.session.catalog
        for statement in statements:
            session = self.session.with_properties({**self.session.properties, **request.properties}, catalog)
            changes = Changes(session, self.deployment, self.registry, check_only=check_only)
            try:
                waits = isinstance(statement, tree.AssertTopic | tree.AssertSchema)
                with nullcontext() if waits else self._turn, self._recording(statement, request, check_only=check_only):
                    result = self._statement(statement, changes, request)
            except MillstreamError as error:
                raise refused(error, statement.text, entities) from error
            if result is not None and not check_only:  # nothing was executed yet
                entities.append(result)
        return entities

    def _recording(
        self, statement: tree.Statement, request: RequestSession, *, check_only: bool
    ) -> AbstractContextManager[None]:
        if check_only or self.journal is None or effect_of(statement) not in ("defines", "controls"):
            return nullcontext()
        return self.journal.recording(statement, request.properties, request.variables)

    def _statement(self, statement: tree.Statement, changes: Changes, request: RequestSession) -> Entity | None:
        match statement:
            case tree.SetProperty():
                request.set(statement.name, statement.value)
            case tree.UnsetProperty():
                request.unset(statement.name)
            case tree.Define():
                request.variables[statement.name.upper()] = statement.value
            case tree.Undefine():
                request.variables.pop(statement.name.upper(), None)
            case tree.InsertValues():
                changes.insert(statement)
            case tree.Terminate():
                return changes.control(statement)
            case tree.Show() | tree.Describe() | tree.Explain() | tree.AssertTopic() | tree.AssertSchema():
                return None if changes.check_only else self._look(statement, changes.session, request)
            case tree.Connector():
                raise SqlStatementError(
                    "Connectors are not supported", hint="run them from a file: millstream connect run", at=statement.at
                )
            case tree.Select() | tree.Print():
                raise RequestError(
                    "The following statement types should be issued to the websocket endpoint '/query': PRINT, SELECT",
                    error_code=QUERY_ENDPOINT,
                )
            case (
                tree.CreateSource()
                | tree.CreateAs()
                | tree.InsertInto()
                | tree.AlterSource()
                | tree.DropSource()
                | tree.CreateType()
                | tree.DropType()
            ):
                return changes.define(statement)
            case _:
                raise RequestError(f"{type(statement).__name__} is not supported", error_code=BAD_STATEMENT)
        return None

    def _look(
        self,
        statement: tree.Show | tree.Describe | tree.Explain | tree.AssertTopic | tree.AssertSchema,
        session: Session,
        request: RequestSession,
    ) -> Entity:
        match statement:
            case tree.Show():
                return Inspection(session, self.deployment, request).show(statement)
            case tree.Describe():
                return Inspection(session, self.deployment, request).describe(statement)
            case tree.Explain():
                return explain(statement, session, self.deployment)
            case tree.AssertTopic():
                return assert_topic(statement, self.deployment)
            case tree.AssertSchema():
                return assert_schema(statement, self.registry)


def refused(error: MillstreamError, statement: str, entities: Sequence[Entity] = ()) -> RequestError:
    """Returns the error of a statement as the API reports it."""
    if isinstance(error, RequestError):
        return RequestError(
            error.message,
            error_code=BAD_STATEMENT if error.error_code == BAD_REQUEST else error.error_code,
            statement=error.statement or statement,
            entities=[*entities, *error.entities],
            hint=error.hint,
        )
    message = error.message
    if isinstance(error, SqlError) and error.line is not None:
        message = f"line {error.line}:{error.column}: {message}"
    return RequestError(
        message, error_code=BAD_STATEMENT, statement=statement, entities=list(entities), hint=error.hint
    )
