"""Authenticates requests, and checks the role that a route requires."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from fastapi import HTTPException, Request

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
        """Returns the sender of a request: by its token, else by its cookie; None if neither is valid."""
        if self.is_open:
            return _ANYONE
        sent = request.headers.get("authorization")
        if sent is not None:
            token = _token(sent)
            return None if token is None else self.tokens.principal(token)
        cookie = request.cookies.get(COOKIE)
        principal = None if cookie is None else self.sessions.principal(cookie)
        is_change = request.method not in _SAFE
        return None if is_change and OWN_HEADER not in request.headers else principal

    def check(self, request: Request, role: Role) -> Principal:
        """Returns the sender of a request, which has at least this role.

        Raises:
            HTTPException: 401 without a valid token, 403 if its role is not sufficient, 429 if it sends too much.
        """
        address = request.client.host if request.client else "?"
        if self.rates.is_blocked(address):
            raise HTTPException(429, "too many failed attempts: wait a moment", {"Retry-After": "5"})
        principal = self.principal(request)
        if principal is None:
            self.rates.failed(address)
            raise HTTPException(401, _UNKNOWN, _CHALLENGE)
        request.state.principal = principal
        if not self.rates.admits(principal.name):
            raise HTTPException(429, "too many requests: wait a moment", {"Retry-After": "1"})
        if principal.role < role:
            needed, has = role.name.lower(), principal.role.name.lower()
            raise HTTPException(403, f"this needs the role {needed}, and the token has the role {has}")
        return principal


def require(role: Role) -> Callable[[Request], Any]:
    """Returns the dependency of a route that requires a role."""

    async def check(request: Request) -> Principal:
        access: Access = request.app.state.access
        return access.check(request, role)

    return check


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
