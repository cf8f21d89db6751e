"""Routes of sessions: the console exchanges a one-time code or a token for a cookie."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel, Field

from millstream.serve.access.audit import note
from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.access.sessions import COOKIE

router = APIRouter(prefix="/api/v1/session", tags=["session"])

Anyone = Annotated[Principal, Depends(require(Role.SCRAPER, limited=True))]


class Credentials(BaseModel):
    """A one-time code, or a token."""

    code: Annotated[str | None, Field(max_length=200, description="The code of the printed address.")] = None
    token: Annotated[str | None, Field(max_length=200, description="A token: its role is that of the session.")] = None


@router.get("", summary="The role of the sender")
async def show(request: Request, principal: Anyone) -> dict[str, Any]:
    """Returns the name and the role of the sender of the request."""
    return _described(request, principal)


@router.post("", summary="Open a session")
async def begin(request: Request, response: Response, credentials: Credentials) -> dict[str, Any]:
    """Opens a session, and sets its cookie. A code is valid once; the session of a token ends with the token."""
    access: Access = request.app.state.access
    cookie = None
    if credentials.code is not None:
        cookie = access.sessions.exchange(credentials.code)
    elif credentials.token is not None:
        holder = access.holder(credentials.token)
        cookie = None if holder is None else access.sessions.open(holder)
    principal = None if cookie is None else access.sessions.principal(cookie)
    if cookie is None or principal is None:
        access.failed(request)
        raise HTTPException(401, "the code or the token is not valid: a code can be used once, within an hour")
    request.state.principal = principal
    note(request, session="opened")
    # Behind a proxy with TLS, only the origin tells that the browser speaks TLS. The guard has checked it.
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=is_secure, path="/")
    return _described(request, principal)


@router.delete("", summary="Close the session")
async def end(request: Request, response: Response, principal: Anyone) -> dict[str, Any]:
    """Ends the session of the cookie."""
    access: Access = request.app.state.access
    access.sessions.close(request.cookies.get(COOKIE, ""))
    note(request, session="closed")
    response.delete_cookie(COOKIE, path="/")
    return {"name": principal.name}


def _described(request: Request, principal: Principal) -> dict[str, Any]:
    access: Access = request.app.state.access
    return {
        "name": principal.name,
        "role": principal.role.name.lower(),
        "stores": list(principal.stores),
        "auth": not access.is_open,
    }
