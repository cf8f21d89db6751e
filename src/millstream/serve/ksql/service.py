"""What the SQL process does for requests. Each method is a call of the server, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from typing import Any

from millstream.errors import BrokerError, LogBusyError, LogFullError, MillstreamError
from millstream.serve.access.roles import Role
from millstream.serve.ksql.codes import FORBIDDEN, NAME, UNAVAILABLE
from millstream.serve.ksql.editor import Editor
from millstream.serve.ksql.formats import Rows, Writer
from millstream.serve.ksql.inserts import column_name, inserted, parsed_row
from millstream.serve.ksql.permissions import Sender
from millstream.serve.operations.masking import Masks
from millstream.sql.live.applications import application_id, table_application_id
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.answers import Answer
from millstream.sql.requests.changes import Changes
from millstream.sql.requests.errors import BAD_REQUEST, RequestError
from millstream.sql.requests.json_values import json_text
from millstream.sql.requests.properties import RequestSession
from millstream.sql.statements.insert import check_target
from millstream.sql.syntax import tree

_POLL = 0.25
_IDLE = 2.0
_PULL_SECONDS = 10.0
_MOST_CHARACTERS = 1 << 18
_MOST_ID = 200

Items = Generator[list[str], None, str | None]
"""Items of an answer, several at once; what the generator returns is the last one."""


class SqlService:
    """Executes the calls of the server.

    Args:
        server: The catalog and the queries.
        masks: The personal fields of topics.
    """

    def __init__(self, server: SqlServer, masks: Masks) -> None:
        self._server = server
        self._masks = masks
        self._handler = server.handler
        self._open: dict[str, tuple[str, threading.Event]] = {}
        self.editor = Editor(server, NAME)

    # ----- /ksql -----------------------------------------------------------------------------------------------------

    def statements(self, sender: Sender, text: str, properties: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        """Executes statements, and returns their entities as JSON."""
        request = _request(properties, variables)
        return json_text(self._handler.statements(text, request, sender.permit))

    # ----- queries ---------------------------------------------------------------------------------------------------

    def query(
        self,
        sender: Sender,
        ended: threading.Event,
        text: str,
        properties: Mapping[str, Any],
        variables: Mapping[str, Any],
        rows: Rows,
    ) -> Items:
        """Yields the items of an answer, an empty list now and then while there are none.

        The first item is the kind of the query, which is no part of the answer. PRINT yields lines.
        """
        request = _request(properties, variables)
        statements = self._handler.parse(text, request, sender.permit)
        if len(statements) == 1 and isinstance(statements[0], tree.Print):
            sender.permit_fields(self._masks.topic(statements[0].topic), statements[0])
            return (yield from self._print(text, request, ended))
        if len(statements) == 1 and isinstance(statements[0], tree.Select):
            self._permit_rows(sender, statements[0])
        answer = self._handler.query(text, request, sender.permit)
        self._open[answer.query_id] = (sender.principal.name, ended)
        try:
            writer = Writer(rows, answer)
            yield ["push" if answer.kind == "push" else "pull", json_text(writer.header())]
            return (yield from self._rows(answer, writer, ended))
        finally:
            self._open.pop(answer.query_id, None)
            answer.close()

    def _rows(self, answer: Answer, writer: Writer, ended: threading.Event) -> Items:
        batch = _Batch()
        deadline = time.monotonic() + _PULL_SECONDS
        alive = time.monotonic()
        try:
            while not ended.is_set() and not (answer.finished and not batch):
                for row in answer.poll(_POLL):
                    item = writer.row(row)
                    if item is not None:
                        batch.add(item)
                    if batch.is_full:
                        yield batch.take()
                if answer.kind != "push" and time.monotonic() > deadline:
                    raise RequestError(
                        f"the query takes longer than {_PULL_SECONDS:g} s; it was stopped",
                        hint="name keys in WHERE, add LIMIT, or use a push query",
                    )
                if batch or time.monotonic() - alive > _IDLE:
                    yield batch.take()
                    alive = time.monotonic()
        except MillstreamError as error:
            if batch:
                yield batch.take()
            return json_text(writer.error(error))
        final = writer.final()
        return None if final is None else json_text(final)

    def _print(self, text: str, request: RequestSession, ended: threading.Event) -> Items:
        topic = self._handler.print_topic(text, request)
        try:
            yield ["print"]
            alive = time.monotonic()
            while not ended.is_set() and not topic.finished:
                lines = list(topic.poll(_POLL))
                if lines or time.monotonic() - alive > _IDLE:
                    yield lines
                    alive = time.monotonic()
            return None
        finally:
            topic.close()

    def _permit_rows(self, sender: Sender, statement: tree.Select) -> None:
        query, catalog = statement.query, self._server.session.catalog
        source = catalog.sources.get(query.relation.source)
        if source is None:
            return  # the handler reports it
        for relation in (query.relation, *(join.relation for join in query.joins)):
            joined = catalog.sources.get(relation.source)
            if joined is not None:
                columns = [column.name for column in (*joined.key, *joined.value)]
                sender.permit_fields(self._masks.topic(joined.topic), statement, columns)
        application = None
        if query.emit is None and source.is_table:
            if source.query in catalog.queries:
                application = application_id(NAME, catalog.queries[source.query])
            elif source.read_only:
                application = table_application_id(NAME, source)
        sender.permit_rows(source, application, statement)

    def close_query(self, sender: Sender, query: str) -> str:
        """Ends a query that runs.

        Raises:
            RequestError: There is none of this id, or it is of somebody else.
        """
        owner, ended = self._open.get(query, (None, None))
        if owner is None or ended is None:
            raise RequestError(f"No query with id {query[:_MOST_ID]}")
        if not sender.owns(owner):
            raise RequestError("only the sender of a query and admins may close it", error_code=FORBIDDEN)
        ended.set()
        return "{}"

    # ----- /inserts-stream -------------------------------------------------------------------------------------------

    def insert(self, sender: Sender, target: str, properties: Mapping[str, Any], lines: list[str], seq: int) -> str:
        """Inserts rows, those up to the first one that is invalid; returns an acknowledgement for each, as JSON lines.

        Args:
            sender: Who inserts.
            target: The stream or table.
            properties: The properties of the request.
            lines: The rows; none: the target is checked only.
            seq: The number of the first row.

        Raises:
            RequestError: The target cannot be written.
        """
        sender.require(Role.OPERATOR, "inserting rows")
        session = self._handler.session_of(_request(properties, {}))
        source = session.catalog.source(column_name(target, session.catalog.sources), tree.Position(1, 1))
        check_target(source, [])
        changes = Changes(session, self._server.deployment, self._handler.registry, check_only=False)
        rows, failure = [], None
        for line in lines:
            try:
                rows.append(inserted(source, parsed_row(line)))
            except MillstreamError as error:
                failure = error
                break
        if rows:
            changes.append(source, rows)
        acknowledged = [f'{{"status":"ok","seq":{seq + number}}}' for number in range(len(rows))]
        if failure is not None:
            place = {"status": "error", "seq": seq + len(rows), "error_code": BAD_REQUEST}
            acknowledged.append(json_text({**place, "message": failure.message}))
        return "\n".join(acknowledged)

    # ----- /clusterStatus, /healthcheck ------------------------------------------------------------------------------

    def queries(self) -> list[str]:
        """Returns the ids of the persistent queries that have not failed."""
        deployment = self._server.deployment
        catalog = self._server.session.catalog.copy()
        return [id_ for id_, query in catalog.queries.items() if deployment.state(query) != "ERROR"]


class _Batch:
    """Items as JSON texts, until they are sent."""

    def __init__(self) -> None:
        self._items: list[str] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: object) -> None:
        """Adds an item."""
        text = json_text(item)
        self._items.append(text)
        self._size += len(text)

    @property
    def is_full(self) -> bool:
        """Whether it is large enough to be sent."""
        return self._size > _MOST_CHARACTERS

    def take(self) -> list[str]:
        """Returns the items, and begins anew."""
        items, self._items, self._size = self._items, [], 0
        return items


def _request(properties: Mapping[str, Any], variables: Mapping[str, Any]) -> RequestSession:
    """Returns the session of a request. Only known properties are allowed."""
    return RequestSession(properties, {name: str(value) for name, value in variables.items()})


def failure(error: MillstreamError) -> dict[str, Any]:
    """Returns an error as the server answers it: the status and the body; the hint is a part of the message."""
    request = error if isinstance(error, RequestError) else RequestError(error.message, hint=error.hint)
    cause = error.__cause__ or error
    if isinstance(cause, BrokerError | LogBusyError | LogFullError):
        request = RequestError(cause.message, error_code=UNAVAILABLE, hint=cause.hint)
    entity = request.entity
    if request.hint:
        entity["message"] = f"{request.message}\nHint: {request.hint}"
    return {"status": request.status, "body": json_text(entity)}
