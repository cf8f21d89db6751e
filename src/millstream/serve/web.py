"""Assembles the application of the web framework: routes, error handlers and static files."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse

from millstream.serve import failures
from millstream.serve.access import routes as session
from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Role
from millstream.serve.console_files import ConsoleFiles
from millstream.serve.data import ServedData
from millstream.serve.live import routes as events
from millstream.serve.live.hub import Hub
from millstream.serve.observe import health, routes as observe
from millstream.serve.observe.observer import Observer
from millstream.serve.operations import applications, dead_letters, groups, topics
from millstream.serve.operations.decoding import Decoder
from millstream.serve.stores import kafka_streams, routes as stores
from millstream.serve.stores.queries import StoreQueries

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

    web.mount("/", ConsoleFiles())
    return web
