"""Routes of the SQL editor of the console."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Response
from pydantic import BaseModel, Field

from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.ksql.engine import CallFailed, SqlEngine
from millstream.serve.ksql.routes import Engine

_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The text is not valid."},
    404: {"description": "The server runs no SQL: it serves one application."},
    503: {"description": "SQL cannot be run now: the message says why."},
}

router = APIRouter(prefix="/api/v1/sql", tags=["SQL"], responses=_RESPONSES)

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]

_MOST_CHARACTERS = 500_000


class Text(BaseModel):
    """The text of the editor."""

    text: Annotated[str, Field(max_length=_MOST_CHARACTERS)]


class Cursor(Text):
    """The text, and the place of the cursor in it, in characters."""

    position: Annotated[int, Field(ge=0, le=_MOST_CHARACTERS)]


@router.get("/catalog", summary="Streams, tables, types and queries")
async def catalog(engine: Engine, _principal: Viewer) -> Response:
    """Returns the streams and tables with their columns, the types, and the persistent queries with their states."""
    return await _asked(engine, "catalog")


@router.post("/complete", summary="Complete a word")
async def complete(cursor: Cursor, engine: Engine, _principal: Viewer) -> Response:
    """Returns the words and names that can take the place of the word before the cursor, which begins at ``start``."""
    return await _asked(engine, "complete", text=cursor.text, position=cursor.position)


@router.post("/check", summary="Find mistakes")
async def check(text: Text, engine: Engine, _principal: Viewer) -> Response:
    """Returns the mistakes of statements, each with its place. Nothing is executed."""
    return await _asked(engine, "check", text=text.text)


@router.post("/explain", summary="The topology of a query")
async def explain(text: Text, engine: Engine, _principal: Viewer) -> Response:
    """Returns the topology of the query of a statement, or of a persistent query by its id, as JSON.

    It is that of `App.describe("json")`, with the ``kind`` and the ``columns`` of the query. A pull query on a table
    has no topology; its ``plan`` says how it reads the table.
    """
    return await _asked(engine, "explain", text=text.text)


async def _asked(engine: SqlEngine, method: str, **arguments: Any) -> Response:
    try:
        return Response(await engine.call(method, **arguments), media_type="application/json")
    except CallFailed as failed:
        headers = {"Retry-After": "1"} if failed.status == 503 else None
        raise HTTPException(failed.status, failed.message, headers) from None
