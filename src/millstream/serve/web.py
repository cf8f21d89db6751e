"""Assembles the application of the web framework: routes, error handlers and static files."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from millstream.serve import failures
from millstream.serve.access import routes as session
from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Role
from millstream.serve.data import ServedData
from millstream.serve.live import routes as events
from millstream.serve.live.hub import Hub
from millstream.serve.observe import health, routes as observe
from millstream.serve.observe.observer import Observer
from millstream.serve.operations import applications, dead_letters, groups, topics
from millstream.serve.operations.decoding import Decoder
from millstream.serve.stores import kafka_streams, routes as stores
from millstream.serve.stores.queries import StoreQueries

CONSOLE = Path(__file__).parent / "console"

ROUTERS = (
    session.router,
    applications.router,
    stores.router,
    kafka_streams.router,
    topics.router,
    groups.router,
    dead_letters.router,
    events.router,
    health.router,
    observe.router,
)


class ConsoleFiles(StaticFiles):
    """The files of the console, compressed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        # A server with the extension pathsend would send a file as it is.
        extensions = {
            name: each for name, each in scope.get("extensions", {}).items() if name != "http.response.pathsend"
        }
        await GZipMiddleware(super().__call__, compresslevel=6)({**scope, "extensions": extensions}, receive, send)


def create_web(data: ServedData, access: Access) -> FastAPI:
    """Returns the application of the web framework."""
    web = FastAPI(
        title="Millstream",
        version=version("millstream"),
        description="Interactive queries, operations and SQL of Millstream.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    web.state.data = data
    web.state.access = access
    web.state.observer = Observer(data)
    web.state.decoder = Decoder(data)
    web.state.hub = Hub(data, web.state.decoder)
    web.state.stores = StoreQueries(data, web.state.decoder.reference)
    failures.install(web)
    for router in ROUTERS:
        web.include_router(router)

    @web.get("/openapi.json", include_in_schema=False, dependencies=[Depends(require(Role.VIEWER))])
    async def openapi() -> JSONResponse:
        return JSONResponse(web.openapi())

    web.mount("/", ConsoleFiles(directory=CONSOLE, html=True))
    return web
