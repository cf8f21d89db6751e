"""Authenticates requests, and checks the role that a route requires."""

from __future__ import annotations

import base64
import binascii
import contextlib
import sys
from collections.abc import Iterator

from fastapi import HTTPException, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from millstream.errors import MillstreamError
from millstream.serve.access.limits import Rates
from millstream.serve.access.roles import Principal, Role
from millstream.serve.access.sessions import COOKIE, Sessions
from millstream.serve.access.tokens import Tokens

OWN_HEADER = "x-millstream"
"""The header that the console sends with each change: a form of another site cannot send it."""

_SAFE = {"GET", "HEAD", "OPTIONS"}
_ANYONE = Principal("anyone", Role.ADMIN)
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="millstream"'}
_UNKNOWN = "this needs a token: send it as Authorization: Bearer TOKEN (millstream tokens create)"
_LIMITED = "the token is limited to stores: it reads the rows of these stores, and nothing else"


class Access:
    """Authenticates senders, and checks their roles.

    Args:
        tokens: The tokens.
        sessions: The sessions of browsers.
        is_open: Every sender is an admin.
    """

    def __init__(self, tokens: Tokens, sessions: Sessions, *, is_open: bool = False) -> None:
        self.tokens = tokens
        self.sessions = sessions
        self.is_open = is_open
        self.rates = Rates()

    def principal(self, request: Request) -> Principal | None:
        """Returns the sender of a request: by its token, else by its cookie; None if neither is valid.

        An answer that lasts, such as an event stream, asks again from time to time: the token may have been revoked.

        Raises:
            HTTPException: 403 for a change that is authorized by a cookie and lacks the header, 503 if the tokens
                cannot be read.
        """
        if self.is_open:
            return _ANYONE
        with _readable_tokens():
            return self._principal(request)

    def holder(self, token: str) -> Principal | None:
        """Returns the holder of a token; None if it is not valid.

        Raises:
            HTTPException: 503 if the tokens cannot be read.
        """
        with _readable_tokens():
            return self.tokens.principal(token)

    def check(self, request: Request, role: Role, *, limited: bool = False) -> Principal:
        """Returns the sender of a request, which has at least this role.

        Args:
            request: The request.
            role: The role.
            limited: A token that is limited to stores may be used, too.

        Raises:
            HTTPException: 401 without a valid token, 403 if its role is not sufficient, 429 if it sends too much.
        """
        principal = self.principal(request)
        if principal is None:
            self.failed(request)
            raise HTTPException(401, _UNKNOWN, _CHALLENGE)
        request.state.principal = principal
        request.state.changes = role > Role.VIEWER
        if not self.rates.admits(principal.name):
            raise HTTPException(429, "too many requests: wait a moment", {"Retry-After": "1"})
        if principal.role < role:
            needed, has = role.name.lower(), principal.role.name.lower()
            raise HTTPException(403, f"this needs the role {needed}, and the token has the role {has}")
        if principal.stores and not limited:
            raise HTTPException(403, _LIMITED)
        return principal

    def failed(self, request: Request) -> None:
        """Counts a failed attempt.

        Raises:
            HTTPException: 429 if there were too many from this address.
        """
        address = request.client.host if request.client else "?"
        if not self.rates.failed(address):
            raise HTTPException(429, "too many failed attempts: wait a moment", {"Retry-After": "5"})

    def _principal(self, request: Request) -> Principal | None:
        sent = request.headers.get("authorization")
        if sent is not None:
            token = _token(sent)
            return None if token is None else self.tokens.principal(token)
        cookie = request.cookies.get(COOKIE)
        principal = None if cookie is None else self.sessions.principal(cookie)
        if cookie is None or principal is None:
            return None
        if principal.token is not None and not self.tokens.has(principal.token):  # it was revoked
            self.sessions.close(cookie)
            return None
        if request.method not in _SAFE and OWN_HEADER not in request.headers:
            raise HTTPException(403, "a change that is authorized by a cookie needs the header X-Millstream")
        return principal


@contextlib.contextmanager
def _readable_tokens() -> Iterator[None]:
    try:
        yield
    except MillstreamError as error:
        print(f"millstream: {error}", file=sys.stderr, flush=True)  # noqa: T201
        message = "the tokens of the server cannot be read; its log has the reason"
        raise HTTPException(503, message, {"Retry-After": "5"}) from None


def require(role: Role, *, limited: bool = False) -> Requirement:
    """Returns the dependency of a route that requires a role.

    Args:
        role: The role.
        limited: A token that is limited to stores may be used, too. The route checks `Principal.may_read`, or shows no
            data of records.
    """
    return Requirement(role, limited=limited)


class Requirement(SecurityBase):
    """The role that a route requires. OpenAPI has it as a security scheme."""

    def __init__(self, role: Role, *, limited: bool) -> None:
        self.role = role
        self.limited = limited
        name = role.name.lower()
        self.scheme_name = f"{name}-of-stores" if limited else name
        note = " A token that is limited to stores will do." if limited else ""
        text = f"A token or a session with the role {name}, or a higher one.{note}"
        self.model = HTTPBearer(description=text)

    async def __call__(self, request: Request) -> Principal:
        """Checks a request."""
        access: Access = request.app.state.access
        return access.check(request, self.role, limited=self.limited)


def _token(header: str) -> str | None:
    """The token in a header: as Bearer, or as the password of Basic."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            _user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return password
    return None
