"""Routes of sessions: the console exchanges a one-time code or a token for a cookie."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel, Field

from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.access.sessions import COOKIE

router = APIRouter(prefix="/api/v1/session", tags=["session"])

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]


class Credentials(BaseModel):
    """A one-time code, or a token."""

    code: Annotated[str | None, Field(max_length=200)] = None
    token: Annotated[str | None, Field(max_length=200)] = None


@router.get("", summary="The role of the sender")
async def show(request: Request, principal: Viewer) -> dict[str, Any]:
    """Returns the name and the role of the sender of the request."""
    access: Access = request.app.state.access
    return {"name": principal.name, "role": principal.role.name.lower(), "auth": not access.is_open}


@router.post("", summary="Open a session", responses={401: {"description": "The code or the token is not valid."}})
async def begin(request: Request, response: Response, credentials: Credentials) -> dict[str, Any]:
    """Opens a session, and sets its cookie. A code is valid once."""
    access: Access = request.app.state.access
    address = request.client.host if request.client else "?"
    if access.rates.is_blocked(address):
        raise HTTPException(429, "too many failed attempts: wait a moment", {"Retry-After": "5"})
    cookie = None
    if credentials.code is not None:
        cookie = access.sessions.exchange(credentials.code)
    elif credentials.token is not None:
        holder = access.tokens.principal(credentials.token)
        cookie = None if holder is None else access.sessions.open(holder)
    principal = None if cookie is None else access.sessions.principal(cookie)
    if cookie is None or principal is None:
        access.rates.failed(address)
        raise HTTPException(401, "the code or the token is not valid: a code can be used once, within an hour")
    request.state.principal = principal
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure, path="/")
    return {"name": principal.name, "role": principal.role.name.lower(), "auth": True}


@router.delete("", summary="Close the session")
async def end(request: Request, response: Response, principal: Viewer) -> dict[str, Any]:
    """Ends the session of the cookie."""
    access: Access = request.app.state.access
    access.sessions.close(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, path="/")
    return {"name": principal.name}
