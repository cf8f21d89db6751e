"""The paths of the examples of Kafka Streams, with the same answers. Headers have the position and the cursor."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from millstream.core.durations import END_OF_TIME
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.stores.codec import json_response, key_of_text, row_as_json
from millstream.serve.stores.cursors import MOST_CHARACTERS, PATTERN
from millstream.serve.stores.definitions import StoreDefinition
from millstream.serve.stores.queries import StoreQueries, queries_of
from millstream.serve.stores.reader import MOST_ROWS, Answer
from millstream.serve.stores.routes import MOST_KEY_CHARACTERS, position_of
from millstream.views.pages import Selection

router = APIRouter(prefix="/state", tags=["stores, with the paths of Kafka Streams"])

Viewer = Annotated[Principal, Depends(require(Role.VIEWER, limited=True))]
StoreName = Annotated[str, Path(description="The store.", max_length=300)]
Key = Annotated[
    str, Path(description="A key: text for a store with text keys, else JSON.", max_length=MOST_KEY_CHARACTERS)
]
Time = Annotated[int, Path(description="A time in milliseconds.", ge=0, le=END_OF_TIME)]
Application = Annotated[str | None, Query(description="The application, if the server serves several.", max_length=300)]


class _KeyInPath(Convertor[str]):
    """A key in a path: it may contain slashes and line breaks."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("storekey", _KeyInPath())


class PageQuery(BaseModel):
    """The page of rows that a request asks for."""

    application: Annotated[
        str | None, Field(max_length=300, description="The application, if the server serves several.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS, description="The largest number of rows.")] = MOST_ROWS
    cursor: Annotated[
        str | None,
        Field(
            max_length=MOST_CHARACTERS,
            pattern=PATTERN,
            description="The header X-Millstream-Cursor of the answer before.",
        ),
    ] = None


Page = Annotated[PageQuery, Query()]


@router.get("/instances", summary="The stores of this server")
async def instances(request: Request, principal: Viewer, application: Application = None) -> Response:
    """Returns the host and the port of this server, with the stores that it answers for."""
    queries = queries_of(request)
    stores = await queries.stores(principal, await queries.application(principal, application))
    return json_response([_instance(request, [store.name for store in stores])])


@router.get("/instances/{store}", summary="Where a store is")
async def instances_of(
    request: Request, store: StoreName, principal: Viewer, application: Application = None
) -> Response:
    """Returns the host and the port of this server, if it answers for the store."""
    queries = queries_of(request)
    definition = await queries.store(principal, await queries.application(principal, application), store)
    return json_response([_instance(request, [definition.name])])


@router.get("/keyvalue/{store}/{key:storekey}", summary="The value of a key")
async def value(
    request: Request, store: StoreName, key: Key, principal: Viewer, application: Application = None
) -> Response:
    """Returns a key and its value; 404 if there is no row."""
    queries = queries_of(request)
    definition = await _of_kind(queries, principal, application, store, "key-value", "versioned")
    data = await _key(queries, definition, key, "key")
    selection = Selection(low=data, below=data + b"\0", as_of=END_OF_TIME)
    answer = await queries.key(definition, data, selection, 0, 0.0)
    shown = await _shown(queries, principal, definition, answer)
    if not shown:
        raise HTTPException(404, "the store has no row for this key", _headers(answer))
    return json_response(shown[0], _headers(answer))


@router.get("/keyvalues/{store}/all", summary="All rows")
async def all_values(
    request: Request,
    store: StoreName,
    principal: Viewer,
    page: Page,
) -> Response:
    """Returns the first rows. The header X-Millstream-Cursor continues after them."""
    queries = queries_of(request)
    definition = await _of_kind(queries, principal, page.application, store, "key-value", "versioned")
    return await _page(queries, principal, definition, Selection(as_of=END_OF_TIME), page)


@router.get("/keyvalues/{store}/range/{from}/{to}", summary="A range of keys")
async def values_between(
    request: Request,
    store: StoreName,
    low: Annotated[Key, Path(alias="from")],
    high: Annotated[Key, Path(alias="to")],
    principal: Viewer,
    page: Page,
) -> Response:
    """Returns the rows from one key to another, both included. The header X-Millstream-Cursor continues after them."""
    queries = queries_of(request)
    definition = await _of_kind(queries, principal, page.application, store, "key-value", "versioned")
    queries.check_range(principal, definition)
    first, last = [await _key(queries, definition, *each) for each in ((low, "from"), (high, "to"))]
    selection = Selection(low=first, below=last + b"\0", as_of=END_OF_TIME)
    return await _page(queries, principal, definition, selection, page)


@router.get("/windowed/{store}/{key:storekey}/{from}/{to}", summary="The windows of a key")
async def windows(
    request: Request,
    store: StoreName,
    key: Key,
    begin: Annotated[Time, Path(alias="from")],
    end: Annotated[Time, Path(alias="to")],
    principal: Viewer,
    page: Page,
) -> Response:
    """Returns the windows of a key that start in a range of time; a row has the key `key@start`."""
    queries = queries_of(request)
    definition = await _of_kind(queries, principal, page.application, store, "window", "session")
    data = await _key(queries, definition, key, "key")
    selection = Selection(low=data, below=data + b"\0", time_from=begin, time_to=end)
    return await _page(queries, principal, definition, selection, page)


async def _of_kind(
    queries: StoreQueries, principal: Principal, application: str | None, name: str, *kinds: str
) -> StoreDefinition:
    store = await queries.store(principal, await queries.application(principal, application), name)
    if store.kind not in kinds:
        raise HTTPException(400, f"store {name!r} is a {store.kind} store, and the path is of a {kinds[0]} store")
    return store


async def _key(queries: StoreQueries, store: StoreDefinition, text: str, what: str) -> bytes:
    return await queries.converted(store, lambda: key_of_text(store, text, what))


async def _page(
    queries: StoreQueries, principal: Principal, store: StoreDefinition, selection: Selection, page: PageQuery
) -> Response:
    after = None if page.cursor is None else queries.cursors.place(store, selection, page.cursor)
    answer = await queries.page(store, selection, page.limit, after)
    headers = _headers(answer)
    rows, has_more = answer.pages[0]
    if has_more:
        hide = queries.hides_keys(principal, store)
        headers["X-Millstream-Cursor"] = queries.cursors.of(store, selection, rows[-1].place, hide=hide)
    return json_response(await _shown(queries, principal, store, answer), headers)


async def _shown(
    queries: StoreQueries, principal: Principal, store: StoreDefinition, answer: Answer
) -> list[dict[str, Any]]:
    rows = answer.pages[0].rows
    return [
        _pair(row) for row in await queries.rows(principal, store, lambda: [row_as_json(store, row) for row in rows])
    ]


def _pair(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the examples show it: key and value only; a window has its start behind the key."""
    pair: dict[str, Any] = {name: row[name] for name in ("key", "key_base64", "value", "value_base64") if name in row}
    window = row.get("window")
    if window is not None and "key" in pair:
        pair["key"] = f"{pair['key']}@{window['start']}"
    return pair


def _headers(answer: Answer) -> dict[str, str]:
    """The position of an answer, the time of its commit in milliseconds, and its age."""
    position = position_of(answer)
    names = {"position": "Position", "committed": "Committed", "age_ms": "Age-Ms"}
    return {f"X-Millstream-{names[name]}": str(value) for name, value in position.items() if value is not None}


def _instance(request: Request, stores: list[str]) -> dict[str, Any]:
    return {"host": request.url.hostname, "port": request.url.port or 80, "storeNames": stores}
