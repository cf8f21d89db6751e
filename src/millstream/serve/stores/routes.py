"""Routes of stores: their definitions, and their rows by key, range, prefix, window, session and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from millstream.core.durations import END_OF_TIME
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.stores.codec import (
    bytes_of_base64,
    has_text_keys,
    json_response,
    key_of_json,
    key_of_text,
    missing_row,
    prefix_of_text,
    row_as_json,
)
from millstream.serve.stores.cursors import MOST_CHARACTERS, PATTERN
from millstream.serve.stores.definitions import StoreDefinition
from millstream.serve.stores.parameters import described_parameters, read_parameters
from millstream.serve.stores.queries import queries_of
from millstream.serve.stores.reader import MOST_ROWS, Answer
from millstream.views.pages import Selection

router = APIRouter(prefix="/api/v1/applications", tags=["stores"])

MOST_WAIT_MS = 8000
MOST_KEY_CHARACTERS = 4000
"""The longest key in a query or a path: a character may take 12 there. Longer keys are sent in a body."""

Viewer = Annotated[Principal, Depends(require(Role.VIEWER, limited=True))]
ApplicationId = Annotated[str, Path(description="The application id.", max_length=300)]
StoreName = Annotated[str, Path(description="The store.", max_length=300)]
Text = Annotated[str | None, Field(max_length=MOST_KEY_CHARACTERS)]
Base64 = Annotated[str | None, Field(max_length=MOST_CHARACTERS, pattern="^[A-Za-z0-9+/=]*$")]
Cursor = Annotated[str | None, Field(max_length=MOST_CHARACTERS, pattern=PATTERN)]
Time = Annotated[int | None, Field(ge=0, le=END_OF_TIME)]
AtLeast = Annotated[int, Field(ge=0, le=END_OF_TIME)]
WaitMs = Annotated[int, Field(ge=0, le=MOST_WAIT_MS)]

_NOT_REACHED: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "The application has not reached the position `at_least` within `wait_ms`, or the query takes"
        " too long. The header Retry-After says when to try again."
    }
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RowsQuery(_Strict):
    """The rows that a request asks for."""

    key: Annotated[Text, Field(description="The key: text for a store with text keys, else JSON.")] = None
    key_base64: Annotated[Base64, Field(description="The bytes of the key.")] = None
    prefix: Annotated[Text, Field(description="Keys that begin with a text, or arrays with their first items.")] = None
    low: Annotated[Text, Field(alias="from", description="The first key, by the order of the bytes of keys.")] = None
    high: Annotated[Text, Field(alias="to", description="The last key.")] = None
    time_from: Annotated[Time, Field(description="Windows that start at this time in milliseconds, or later.")] = None
    time_to: Annotated[Time, Field(description="Windows that start at this time, or earlier.")] = None
    as_of: Annotated[Time, Field(description="Of a versioned store: the rows that were valid at this time.")] = None
    reverse: Annotated[bool, Field(description="The greatest keys and times first.")] = False
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS, description="The largest number of rows.")] = 100
    cursor: Annotated[Cursor, Field(description="The cursor of the page before.")] = None
    at_least: Annotated[AtLeast, Field(description="A position of an earlier answer: rows of it, or later ones.")] = 0
    wait_ms: Annotated[WaitMs, Field(description="How long to wait for that position.")] = 0


class Keys(_Strict):
    """The keys that a request asks for, as JSON."""

    keys: Annotated[list[Any], Field(min_length=1, max_length=MOST_ROWS, description="The keys as JSON.")]
    time_from: Annotated[Time, Field(description="As in a query.")] = None
    time_to: Annotated[Time, Field(description="As in a query.")] = None
    as_of: Annotated[Time, Field(description="As in a query.")] = None
    at_least: Annotated[AtLeast, Field(description="As in a query.")] = 0
    wait_ms: Annotated[WaitMs, Field(description="As in a query.")] = 0


@router.get("/{application}/stores", summary="The stores of an application")
async def list_stores(request: Request, application: ApplicationId, principal: Viewer) -> Response:
    """Returns the stores that can be queried, and that the token may read."""
    queries = queries_of(request)
    shown = await queries.stores(principal, application)
    counts = await queries.row_counts(application, [store.name for store in shown])
    sizes = _sizes(request, application)
    return json_response({"stores": [_described(store, counts[store.name], sizes) for store in shown]})


@router.get("/{application}/stores/{store}", summary="A store")
async def show_store(request: Request, application: ApplicationId, store: StoreName, principal: Viewer) -> Response:
    """Returns the kind of a store, its serdes, and the number of its rows."""
    queries = queries_of(request)
    definition = await queries.store(principal, application, store)
    counts = await queries.row_counts(application, [store])
    return json_response(_described(definition, counts[store], _sizes(request, application)))


@router.get(
    "/{application}/stores/{store}/rows",
    summary="Rows of a store",
    responses=_NOT_REACHED,
    openapi_extra=described_parameters(RowsQuery),
)
async def rows(request: Request, application: ApplicationId, store: StoreName, principal: Viewer) -> Response:
    """Returns rows as of one commit: those of a key, a range of keys, or a prefix; or all rows.

    The answer has the position of the commit, its time, and its age. The position of an application only grows. The
    cursor continues after the rows of this answer: a row that exists all the time is on exactly one page, whatever
    changes in between. There is no cursor if no row is left.
    """
    query = read_parameters(request, RowsQuery)
    queries = queries_of(request)
    definition = await queries.store(principal, application, store)
    selection, key = await queries.converted(definition, lambda: selection_of(definition, query))
    if key is None and (query.prefix, query.low, query.high) != (None, None, None):
        queries.check_range(principal, definition)
    wait = query.wait_ms / 1000
    if key is not None and definition.kind == "key-value" and query.cursor is None:
        answer = await queries.key(definition, key, selection, query.at_least, wait)
    else:
        after = None if query.cursor is None else queries.cursors.place(definition, selection, query.cursor)
        answer = await queries.page(definition, selection, query.limit, after, query.at_least, wait)
    page, cursor = answer.pages[0], None
    if page.has_more:
        hide = queries.hides_keys(principal, definition)
        cursor = queries.cursors.of(definition, selection, page.rows[-1].place, hide=hide)
    shown = await queries.rows(principal, definition, lambda: [row_as_json(definition, row) for row in page.rows])
    return json_response({"rows": shown, "cursor": cursor, **position_of(answer)})


@router.post("/{application}/stores/{store}/rows", summary="Rows of several keys", responses=_NOT_REACHED)
async def rows_of_keys(
    request: Request, application: ApplicationId, store: StoreName, query: Keys, principal: Viewer
) -> Response:
    """Returns the rows of keys as of one commit, in the order of the keys. A key without a row has the value null."""
    queries = queries_of(request)
    definition = await queries.store(principal, application, store)
    keys = await queries.converted(
        definition, lambda: [key_of_json(definition, key, f"keys.{number}") for number, key in enumerate(query.keys)]
    )
    times = _times(definition, query.time_from, query.time_to, query.as_of)
    selections = [times._replace(low=key, below=key + b"\0") for key in keys]
    answer = await queries.many(definition, selections, query.at_least, query.wait_ms / 1000)

    def show() -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for key, page in zip(keys, answer.pages, strict=True):
            shown += [row_as_json(definition, row) for row in page.rows] or [missing_row(definition, key)]
        return shown

    shown = await queries.rows(principal, definition, show)
    return json_response({"rows": shown, "cursor": None, **position_of(answer)})


def selection_of(store: StoreDefinition, query: RowsQuery) -> tuple[Selection, bytes | None]:
    """Returns the selection of a query, and its key if it asks for one.

    Raises:
        HTTPException: 400, its parameters do not fit the store, or each other.
    """
    given = [name for name in ("key", "key_base64", "prefix") if getattr(query, name) is not None]
    has_range = query.low is not None or query.high is not None
    if len(given) + has_range > 1:
        raise HTTPException(400, "give one of key, key_base64, prefix, or a range by from and to")
    selection = _times(store, query.time_from, query.time_to, query.as_of)._replace(reverse=query.reverse)
    key = None
    if query.key is not None:
        key = key_of_text(store, query.key, "key")
    elif query.key_base64 is not None:
        key = bytes_of_base64(query.key_base64, "key_base64")
    if key is not None:
        return selection._replace(low=key, below=key + b"\0"), key
    if query.prefix is not None:
        low, below = prefix_of_text(store, query.prefix)
        return selection._replace(low=low, below=below), None
    low = b"" if query.low is None else key_of_text(store, query.low, "from")
    below = None if query.high is None else key_of_text(store, query.high, "to") + b"\0"
    return selection._replace(low=low, below=below), None


def position_of(answer: Answer) -> dict[str, Any]:
    """The position of an answer, the time of its commit, and its age; 0 and null before the first commit."""
    commit = answer.commit
    if commit is None:
        return {"position": 0, "committed": None, "age_ms": None}
    age = max(0, int(time.time() * 1000) - commit.time)
    return {"position": commit.number, "committed": commit.time, "age_ms": age}


def _times(store: StoreDefinition, time_from: int | None, time_to: int | None, as_of: int | None) -> Selection:
    has_times = time_from is not None or time_to is not None
    low, high = time_from or 0, END_OF_TIME if time_to is None else time_to
    if store.kind == "versioned":
        if as_of is not None and has_times:
            raise HTTPException(400, "give as_of, or time_from and time_to, which ask for all versions of that time")
        moment = None if has_times else END_OF_TIME if as_of is None else as_of
        return Selection(time_from=low, time_to=high, as_of=moment)
    if as_of is not None:
        raise HTTPException(400, f"as_of: store {store.name!r} is a {store.kind} store, not a versioned one")
    if has_times and not store.has_windows:
        raise HTTPException(400, f"time_from, time_to: store {store.name!r} is a {store.kind} store, without windows")
    return Selection(time_from=low, time_to=high)


def _described(store: StoreDefinition, rows: int | None, sizes: Callable[[str], int | None]) -> dict[str, Any]:
    return {
        "name": store.name,
        "kind": store.kind,
        "key": store.schemas["key"],
        "value": store.schemas["value"],
        "text_keys": has_text_keys(store),
        "timestamped": store.timestamped,
        "window_size_ms": store.window_size_ms,
        "retention_ms": store.retention_ms,
        "rows": rows,
        "bytes": sizes(store.name),
        "sub_topology": store.sub_topology,
        "node": store.operator,
    }


def _sizes(request: Request, application: str) -> Callable[[str], int | None]:
    """The bytes of stores, as their application has reported them; None if it has not."""
    report = queries_of(request).data.reports.report(application)
    stores = (report.content.get("metrics") or {}).get("stores", {})

    def size(name: str) -> int | None:
        figures = stores.get(name, {})
        sizes = [int(figures[figure]) for figure in ("memory", "stored-bytes") if figure in figures]
        return max(sizes, default=None)

    return size
