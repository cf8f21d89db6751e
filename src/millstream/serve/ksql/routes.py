"""ksqlDB's API: its paths, content types and errors."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from millstream.serve.access.audit import note
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.ksql.bodies import CloseQuery, InsertTarget, Statements, decoded, schema
from millstream.serve.ksql.codes import NAME, NOT_ACCEPTABLE
from millstream.serve.ksql.engine import CallFailed, SqlEngine
from millstream.serve.ksql.formats import (
    INSERT_FORMATS,
    JSON,
    KSQL_JSON,
    QUERY_FORMATS,
    QUERY_STREAM_FORMATS,
    AnswerFormat,
    Framing,
    accepted,
)
from millstream.serve.ksql.permissions import Sender
from millstream.serve.ksql.streams import Credentials, DuplexResponse, PlacedResponse, Places, line_batches
from millstream.sql.requests.errors import BAD_REQUEST

_MOST_ID = 1000
_LAST_ITEM = '{"finalMessage":"Query Completed"}'


class KsqlRoute(APIRoute):
    """A route whose errors are those of ksqlDB's API."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Returns the handler of the route."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except CallFailed as failed:
                headers = {"Retry-After": "1"} if failed.status in {429, 503} else None
                return Response(failed.body, failed.status, headers, media_type=KSQL_JSON)
            except HTTPException as refused:
                return _refusal(request, refused)

        return answer


def _refusal(request: Request, refused: HTTPException) -> Response:
    """Returns an answer in the form of ksqlDB and in that of all other routes: access is refused for all in one way."""
    content = {
        "@type": "generic_error",
        "error_code": refused.status_code * 100,
        "message": str(refused.detail),
        "error": {"message": str(refused.detail)},
        "request_id": request.state.request_id,
    }
    return JSONResponse(content, refused.status_code, dict(refused.headers or {}), media_type=KSQL_JSON)


def _responses(*types: str) -> dict[int | str, dict[str, Any]]:
    refused = {
        400: "The request, or one of its statements, is not valid.",
        401: "There is no valid token.",
        403: "The token has not the role that a statement needs.",
        404: "The server runs no SQL: it serves one application.",
        406: "The header Accept admits none of the content types.",
        417: "ASSERT has failed.",
        429: "Too many requests or streams.",
        503: "SQL cannot be run now: the message says why.",
    }
    ok = {"description": "The answer.", "content": {each: {} for each in types}}
    return {200: ok, **{status: {"description": text, "content": {KSQL_JSON: {}}} for status, text in refused.items()}}


router = APIRouter(tags=["ksqlDB"], route_class=KsqlRoute)

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
QuerySender = Annotated[Principal, Depends(require(Role.VIEWER, limited=True))]
"""`permissions` checks what a query reads, also for tokens limited to stores."""

Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]

_PROPERTIES = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_KSQL = schema({"ksql": {"type": "string"}, "streamsProperties": _PROPERTIES, "sessionVariables": _PROPERTIES}, "ksql")
_SQL = schema({"sql": {"type": "string"}, "properties": _PROPERTIES, "sessionVariables": _PROPERTIES}, "sql")


def engine_of(request: Request) -> SqlEngine:
    """The SQL of the server."""
    engine: SqlEngine = request.app.state.sql
    return engine


Engine = Annotated[SqlEngine, Depends(engine_of)]


@router.post(
    "/ksql",
    summary="Execute statements",
    response_class=Response,
    responses=_responses(KSQL_JSON, JSON),
    openapi_extra=_KSQL,
)
async def ksql(request: Request, engine: Engine, principal: Viewer) -> Response:
    """Executes statements, and returns an entity for each. Each statement requires a role.

    If one of them is not valid or not permitted, none is executed.
    """
    content_type = _accepted(request, (KSQL_JSON, JSON))
    body = decoded(await request.body(), Statements)
    try:
        text, changes = await engine.change("statements", sender=Sender.facts(principal), **body.arguments())
    except CallFailed as failed:
        _note_statements(request, failed.changes)
        raise
    _note_statements(request, changes)
    return Response(text, media_type=content_type)


@router.post(
    "/query",
    summary="Run a query",
    response_class=Response,
    responses=_responses(*QUERY_FORMATS),
    openapi_extra=_KSQL,
)
async def query(request: Request, engine: Engine, principal: QuerySender) -> Response:
    """Runs a SELECT or PRINT, and returns its rows as they come."""
    return await _query(request, engine, principal, QUERY_FORMATS[_accepted(request, QUERY_FORMATS)])


@router.post(
    "/query-stream",
    summary="Run a query, rows as lines",
    response_class=Response,
    responses=_responses(*QUERY_STREAM_FORMATS),
    openapi_extra=_SQL,
)
async def query_stream(request: Request, engine: Engine, principal: QuerySender) -> Response:
    """Runs a SELECT or PRINT, and returns its rows as they come: by default, a line for each."""
    return await _query(request, engine, principal, QUERY_STREAM_FORMATS[_accepted(request, QUERY_STREAM_FORMATS)])


@router.post(
    "/inserts-stream",
    summary="Insert rows",
    response_class=Response,
    responses=_responses(*INSERT_FORMATS),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "string"}}}}},
)
async def inserts_stream(request: Request, engine: Engine, principal: Operator) -> Response:
    """Inserts rows: the first line names the target, and each further one is a row. Each row is acknowledged."""
    form = INSERT_FORMATS[_accepted(request, INSERT_FORMATS)]
    framing = Framing(form)
    batches = line_batches(request.stream())
    first: list[str] = await anext(batches, [])
    if not first:
        raise CallFailed.generic(BAD_REQUEST, 'the first line of the request names the target: {"target": "orders"}')
    target = decoded(first[0].encode(), InsertTarget)
    arguments = {
        "sender": Sender.facts(principal),
        "target": target.target,
        "properties": {name: value for name, value in (target.properties or {}).items() if value is not None},
    }
    note(request, target=target.target)
    await engine.call("insert", lines=[], seq=0, **arguments)
    places = _places(request)
    places.take()

    async def insert(lines: list[str], seq: int) -> list[str]:
        try:
            text = await engine.call("insert", lines=lines, seq=seq, **arguments)
        except CallFailed as failed:
            return [failed.body]
        return str(text).split("\n")

    async def acknowledgements() -> AsyncGenerator[str, None]:
        credentials = Credentials(request)
        seq = 0
        lines = first[1:]
        while True:
            items = await insert(lines, seq) if lines else []
            if items:
                yield framing.add(items)
            seq += len(items)
            if (items and '"status":"ok"' not in items[-1]) or credentials.have_ended():
                break
            try:
                lines = await anext(batches)
            except StopAsyncIteration:
                break
            except CallFailed as failed:
                yield framing.add([failed.body])
                break
        yield framing.end()

    return DuplexResponse(acknowledgements(), form.content_type, places)


@router.post(
    "/close-query",
    summary="End a query",
    response_class=Response,
    responses=_responses(JSON),
    openapi_extra=schema({"queryId": {"type": "string"}}, "queryId"),
)
async def close_query(request: Request, engine: Engine, principal: QuerySender) -> Response:
    """Ends a query that sends rows. Only its sender and admins may do so."""
    body = decoded(await request.body(), CloseQuery)
    query_id = body.queryId[:_MOST_ID]
    return Response(await engine.call("close_query", sender=Sender.facts(principal), query=query_id), media_type=JSON)


@router.get("/info", summary="The server", response_class=Response, responses=_responses(KSQL_JSON, JSON))
async def info(request: Request, engine: Engine, _principal: Viewer) -> Response:
    """Returns the version and the state of the server."""
    status = "RUNNING" if await _is_healthy(engine) else "DEGRADED"
    facts = {
        "version": version("millstream"),
        "kafkaClusterId": "millstream",
        "ksqlServiceId": NAME,
        "serverStatus": status,
    }
    return JSONResponse({"KsqlServerInfo": facts}, media_type=_accepted(request, (KSQL_JSON, JSON)))


@router.get("/healthcheck", summary="Whether SQL runs", response_class=Response, responses=_responses(KSQL_JSON, JSON))
async def healthcheck(request: Request, engine: Engine, _principal: Viewer) -> Response:
    """Returns whether SQL runs; 503 if it does not."""
    is_healthy = await _is_healthy(engine)
    details = {name: {"isHealthy": is_healthy} for name in ("metastore", "kafka", "commandRunner")}
    return JSONResponse(
        {"isHealthy": is_healthy, "details": details, "serverState": "READY" if is_healthy else "NOT_READY"},
        200 if is_healthy else 503,
        None if is_healthy else {"Retry-After": "1"},
        media_type=_accepted(request, (KSQL_JSON, JSON)),
    )


@router.get("/clusterStatus", summary="The servers", response_class=Response, responses=_responses(KSQL_JSON, JSON))
async def cluster_status(request: Request, engine: Engine, _principal: Viewer) -> Response:
    """Returns the one server of the data directory, and its persistent queries."""
    queries: list[str] = await engine.call("queries")
    placed: dict[str, list[Any]] = {
        "activeStores": [],
        "activePartitions": [],
        "standByStores": [],
        "standByPartitions": [],
    }
    host = {
        "hostAlive": True,
        "lastStatusUpdateMs": int(time.time() * 1000),
        "activeStandbyPerQuery": dict.fromkeys(queries, placed),
        "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
    }
    name = request.headers.get("host", "localhost")
    return JSONResponse({"clusterStatus": {name: host}}, media_type=_accepted(request, (KSQL_JSON, JSON)))


async def _is_healthy(engine: SqlEngine) -> bool:
    try:
        await engine.call("queries")
    except CallFailed as failed:
        if failed.status != 503:
            raise
        return False
    return True


def _note_statements(request: Request, changes: Collection[str]) -> None:
    if changes:
        note(request, statements=list(changes))


def _accepted(request: Request, offered: Collection[str]) -> str:
    content_type = accepted(request.headers.get("accept"), offered)
    if content_type is None:
        raise CallFailed.generic(NOT_ACCEPTABLE, f"the content types of the answer are: {', '.join(offered)}")
    return content_type


def _places(request: Request) -> Places:
    places: Places = request.app.state.places
    return places


async def _query(request: Request, engine: SqlEngine, principal: Principal, form: AnswerFormat) -> Response:
    body = decoded(await request.body(), Statements)
    items = engine.items("query", sender=Sender.facts(principal), rows=form.rows, **body.arguments())
    try:
        (kind, *first), _is_last = await anext(items)
        places = _places(request) if kind != "pull" else None
        if places is not None:
            places.take()
    except BaseException:
        await items.aclose()
        raise
    if kind == "print":
        form = AnswerFormat("text/plain; charset=utf-8", "lists", is_array=False)
    framing = Framing(form, by_line=kind == "push" and form.rows != "lists")

    async def rows() -> AsyncGenerator[str, None]:
        credentials = Credentials(request)
        last = _LAST_ITEM if form.rows != "lists" else None
        try:
            async with contextlib.aclosing(items):
                yield framing.add(first)
                async for batch, is_last in items:
                    if is_last:
                        last = batch[0] if batch else None
                    elif credentials.have_ended():
                        break
                    elif batch:
                        yield framing.add(batch)
        except CallFailed as failed:
            last = failed.body if form.rows == "lists" else f'{{"errorMessage":{failed.body}}}'
        yield framing.end(last)

    return PlacedResponse(rows(), form.content_type, places)
