"""Every route with every method, for each kind of sender. The routes are those of the server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from tests.serve.in_process import InProcess

from millstream.serve.access.authorization import OWN_HEADER, Requirement
from millstream.serve.access.roles import Principal, Role
from millstream.serve.access.sessions import COOKIE
from millstream.serve.web import create_routes

OPEN = {("GET", "/healthz"), ("HEAD", "/healthz"), ("GET", "/readyz"), ("HEAD", "/readyz"), ("POST", "/api/v1/session")}
"""The routes that need no token: probes, and the exchange of a code or a token for a session."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
TOKENS = ("nobody", "wrong", "expired", "revoked", "scraper", "viewer", "operator", "admin", "limited")
COOKIES = ("cookie of nobody", "cookie of viewer", "cookie of operator", "cookie of admin", "cookie without the header")
"""Senders with a session. The last one is an admin whose changes lack the header that forms cannot send."""


def routes() -> dict[str, dict[str, Requirement | None]]:
    """The required roles of all routes of the server, by path and method."""
    by_path: dict[str, dict[str, Requirement | None]] = {}
    for context in iter_route_contexts(create_routes().routes):
        if isinstance(context.original_route, APIRoute):
            assert context.path is not None
            path = re.sub(r":\w+\}", "}", context.path)  # the description of the API has no converters
            for method in context.methods or ():
                by_path.setdefault(path, {})[method] = required(context.dependant)
    return by_path


def required(dependant: Dependant) -> Requirement | None:
    """The requirement of a route, or of one of its dependencies."""
    if isinstance(dependant.call, Requirement):
        return dependant.call
    return next((each for each in map(required, dependant.dependencies) if each is not None), None)


ROUTES = routes()


@pytest.fixture(scope="module")
def server(shop_in_process: InProcess) -> InProcess:
    return shop_in_process


@pytest.fixture(scope="module")
def tokens(server: InProcess) -> dict[str, str | None]:
    create = server.access.tokens.create
    made: dict[str, str | None] = {role.name.lower(): create(role.name.lower(), role) for role in Role}
    made |= {"nobody": None, "wrong": f"{made['admin'][:-1]}x" if made["admin"] else None}
    made["limited"] = create("limited", Role.ADMIN, stores=("other/*",))
    made["expired"] = create("expired", Role.ADMIN, seconds=0.000_001)
    made["revoked"] = create("revoked", Role.ADMIN)
    server.access.tokens.revoke("revoked")
    return made


@pytest.fixture(scope="module")
def cookies(server: InProcess) -> dict[str, str]:
    """The cookies of sessions. Of one session the token is revoked."""
    roles = {"viewer": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN}
    made = {f"cookie of {name}": server.access.sessions.open(Principal(name, role)) for name, role in roles.items()}
    made["cookie without the header"] = made["cookie of admin"]
    revoked = server.access.holder(server.access.tokens.create("left", Role.ADMIN))
    assert revoked is not None
    made["cookie of nobody"] = server.access.sessions.open(revoked)
    server.access.tokens.revoke("left")
    return made


def expected(requirement: Requirement | None, sender: str, method: str = "GET") -> set[int] | None:
    """The statuses of an answer; None if the request is allowed."""
    if requirement is None:
        return None
    name = sender.removeprefix("cookie of ")
    if name in {"nobody", "wrong", "expired", "revoked"}:
        return {401}
    if sender == "limited":
        return None if requirement.limited else {403}
    if sender == "cookie without the header":
        return None if method in {"GET", "HEAD"} else {403}
    return None if Role.named(name) >= requirement.role else {403}


@pytest.mark.parametrize("path", sorted(ROUTES))
def test_a_route_answers_senders_by_their_role(path: str, server: InProcess, tokens: dict[str, str | None]) -> None:
    address = re.sub(r"\{[^}]+\}", "1", path)
    for method in METHODS:
        rule = ROUTES[path].get(method)
        for sender in TOKENS:
            body: Any = {"code": "x"} if path == "/api/v1/session" and method == "POST" else {}
            answer = server.request(
                method, address, token=tokens[sender], json_body=body if method in {"POST", "PUT", "PATCH"} else None
            )
            what = f"{method} {path} as {sender}: {answer.status} {answer.body[:200]!r}"
            if method not in ROUTES[path]:
                assert answer.status in {404, 405}, what
                continue
            statuses = expected(rule, sender)
            if statuses is not None:
                assert answer.status in statuses, what
                assert "error" in answer.json(), what
            elif sender == "limited" and "{store}" in path:
                assert answer.status in {403, 422}, what  # it is limited to other stores
            elif (method, path) in OPEN:
                assert answer.status in {200, 401, 503}, what
            else:
                assert answer.status not in {401, 403}, what
                assert answer.status < 500 or answer.status == 503, what


@pytest.mark.parametrize("path", sorted(ROUTES))
def test_a_route_answers_sessions_by_their_role(path: str, server: InProcess, cookies: dict[str, str]) -> None:
    address = re.sub(r"\{[^}]+\}", "1", path)
    for method, rule in ROUTES[path].items():
        if (method, path) in OPEN or path == "/api/v1/session":
            continue  # DELETE ends the session
        for sender in COOKIES:
            headers = {"cookie": f"{COOKIE}={cookies[sender]}"}
            if sender != "cookie without the header":
                headers[OWN_HEADER] = "1"
            answer = server.request(method, address, json_body={} if method == "POST" else None, headers=headers)
            what = f"{method} {path} as {sender}: {answer.status} {answer.body[:200]!r}"
            statuses = expected(rule, sender, method)
            if statuses is None:
                assert answer.status not in {401, 403}, what
                assert answer.status < 500 or answer.status == 503, what
            else:
                assert answer.status in statuses, what
                assert "error" in answer.json(), what


def test_every_route_names_the_role_that_it_requires() -> None:
    without = {(method, path) for path, methods in ROUTES.items() for method, rule in methods.items() if rule is None}
    assert without == OPEN


def test_the_description_of_the_api_has_the_role_of_each_route() -> None:
    described = create_routes().openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            rule = ROUTES[path][method.upper()]
            names = [name for scheme in operation.get("security", ()) for name in scheme]
            assert names == ([] if rule is None else [rule.scheme_name]), (method, path)


def test_only_routes_of_stores_and_of_the_sender_itself_take_limited_tokens() -> None:
    limited = {path for path, methods in ROUTES.items() if any(rule and rule.limited for rule in methods.values())}
    own = {"/api/v1/session", "/openapi.json", "/docs", "/metrics", "/api/v1/events"}
    queries = {"/query", "/query-stream", "/close-query"}  # what a query reads is checked
    assert all(path in own | queries or "/stores" in path or path.startswith("/state/") for path in limited), limited
