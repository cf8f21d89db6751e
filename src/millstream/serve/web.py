"""Assembles the application of the web framework: routes, error handlers and static files."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from millstream.serve import failures
from millstream.serve.access import routes as session
from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Role
from millstream.serve.console_files import ConsoleFiles
from millstream.serve.ksql import console as sql_console, routes as ksql
from millstream.serve.live import routes as events
from millstream.serve.observe import health, routes as observe
from millstream.serve.operations import applications, connectors, dead_letters, groups, topics
from millstream.serve.reference import POLICY, as_html
from millstream.serve.services import Services
from millstream.serve.stores import kafka_streams, routes as stores

# Routes are tried one after the other. Queries of stores are the most frequent requests.
ROUTERS = (
    stores.router,
    kafka_streams.router,
    session.router,
    applications.router,
    topics.router,
    groups.router,
    dead_letters.router,
    connectors.router,
    events.router,
    health.router,
    observe.router,
    ksql.router,
    sql_console.router,
)

reference = APIRouter(include_in_schema=False, dependencies=[Depends(require(Role.VIEWER, limited=True))])


@reference.get("/openapi.json")
async def openapi(request: Request) -> JSONResponse:
    """The description of the API."""
    web: FastAPI = request.app
    return JSONResponse(web.openapi())


@reference.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The description of the API, for people."""
    web: FastAPI = request.app
    return HTMLResponse(as_html(web.openapi()), headers={"Content-Security-Policy": POLICY})


def create_web(services: Services, access: Access) -> FastAPI:
    """Returns the application of the web framework."""
    web = create_routes()
    web.state.access = access
    for name, service in vars(services).items():
        setattr(web.state, name, service)
    return web


def create_routes() -> FastAPI:
    """Returns the application with its routes, without the data that they serve."""
    web = FastAPI(
        title="Millstream",
        version=version("millstream"),
        description="Interactive queries, operations and SQL of Millstream.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    failures.install(web)
    for router in ROUTERS:
        web.include_router(router, responses=failures.RESPONSES)
    web.include_router(reference)
    web.mount("/", ConsoleFiles())
    return web
