"""The outermost layer of the server: checks what every request must have, before any route sees it."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias

from millstream.serve.access.audit import Audit, noted
from millstream.text.escaping import trace_text

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 1_000_000
"""The largest body of a request."""

UNEXPECTED = "this should not happen; the log of the server has the traceback of the request"
"""The message of an error that no route expects."""

_STREAMED = {"/inserts-stream"}
"""Paths whose body is read line by line, and may go on: the route limits its lines."""

_SECONDS = 10.0
_LONGER = {"/ksql": 60.0}
"""Paths whose answer may begin later: it comes when the queries that a request creates run."""
_METHODS = {"GET", "HEAD", "OPTIONS", "POST", "DELETE", "PUT", "PATCH"}
_SAFE = {"GET", "HEAD", "OPTIONS"}
_PROBES = {"/healthz", "/readyz"}
_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Refused(Exception):  # noqa: N818  (it is an answer)
    """The request is not passed on.

    Attributes:
        status: The status of the answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Checks the host, the origin, the method and the size of requests, and limits their time.

    A browser sends the name that it has resolved as the host. A page of another site that resolves its own name to this
    machine is refused, because the name is not one of the server's.

    Args:
        application: The application behind the guard.
        hosts: The values that the header Host may have.
        origins: The values that the header Origin may have.
        audit: The audit log.
        seconds: The time until an answer must begin.
    """

    def __init__(
        self,
        application: Application,
        hosts: Collection[str],
        origins: Collection[str],
        audit: Audit,
        seconds: float = _SECONDS,
    ) -> None:
        self._application = application
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._audit = audit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        request = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request
        answer = _Answer(send, request)
        try:
            self._check(scope)
            await self._pass_on(scope, receive, answer)
        except Refused as refused:
            await answer.fail(refused.status, str(refused))
        except Exception as error:  # noqa: BLE001  (an unexpected error is logged; the answer has its number only)
            print(f"millstream: request {request} failed:", trace_text(error), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
            await answer.fail(500, UNEXPECTED)
        finally:
            self._note(scope, answer.status)

    def _check(self, scope: Scope) -> None:
        if scope["method"] not in _METHODS:
            raise Refused(405, "the method is not allowed")
        headers = _headers(scope)
        if scope["path"] not in _PROBES and headers.get(b"host", "").lower() not in self._hosts:
            raise Refused(
                400, "the host of the request is not one of this server: see --allowed-host of millstream serve"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self._origins:
            raise Refused(403, "the request comes from another origin")
        if scope["method"] not in _SAFE and headers.get(b"sec-fetch-site", "none") not in {"same-origin", "none"}:
            raise Refused(403, "the request comes from another site")
        length = headers.get(b"content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise Refused(400, "the content length is not a number")
        if int(length) > MOST_BYTES and scope["path"] not in _STREAMED:
            raise Refused(413, f"the body exceeds {MOST_BYTES} bytes")

    async def _pass_on(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Runs the application. After the time limit it is cancelled, unless its answer has begun."""
        receive = receive if scope["path"] in _STREAMED else _limited(receive, answer)
        seconds = _LONGER.get(scope["path"], self._seconds)
        task = asyncio.current_task()
        assert task is not None
        # A timer costs less than a task of its own for each request.
        timer = asyncio.get_running_loop().call_later(seconds, answer.expire, task, seconds)
        try:
            await self._application(scope, receive, answer)
        except asyncio.CancelledError:
            if answer.expired is None:
                raise
            task.uncancel()
        finally:
            timer.cancel()
        if answer.expired is not None:
            await answer.expired

    def _note(self, scope: Scope, status: int) -> None:
        """Notes a change, or the attempt of a known sender to make one. Others cannot fill the log."""
        state = scope["state"]
        principal, facts = state.get("principal"), noted(state)
        if scope["method"] in _SAFE or principal is None or not (facts or state.get("changes")):
            return
        self._audit.write(
            who=principal.name,
            role=principal.role.name.lower(),
            method=scope["method"],
            path=scope["path"],
            status=status,
            request=state["request_id"],
            **({"what": facts} if facts else {}),
        )


class _Answer:
    """Sends the answer of the application, with the headers that every answer has."""

    def __init__(self, send: Send, request: str) -> None:
        self._send = send
        self._request = request
        self.began = False
        self.status = 0
        self.refused: Refused | None = None
        """Why the body of the request is not read to its end."""
        self.expired: asyncio.Task[None] | None = None
        """Answers that there was no answer in time. What the application sends later is dropped."""

    async def __call__(self, message: Message) -> None:
        if self.expired is not None and asyncio.current_task() is not self.expired:
            return
        if message["type"] == "http.response.start":
            if self.began:
                return
            if self.refused is not None:  # the web framework would answer that the body cannot be parsed
                raise self.refused
            self.status = message["status"]
            given = message.get("headers", [])
            names = {name.lower() for name, _ in given}
            own = [*_HEADERS, (b"cache-control", b"no-store"), (b"x-request-id", self._request.encode())]
            message = {**message, "headers": [*given, *(each for each in own if each[0] not in names)]}
            self.began = True
        await self._send(message)

    def expire(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Answers that there was no answer in time, and cancels the application, unless its answer has begun.

        The answer does not wait for the application: a thread of it may take as long as it likes.
        """
        if not self.began:
            message = f"there is no answer after {seconds:g} s: ask for less, or try again"
            self.expired = asyncio.ensure_future(self.fail(503, message))
            task.cancel()

    async def fail(self, status: int, message: str) -> None:
        """Answers with an error, unless an answer has begun."""
        if self.began:
            return
        self.refused = None
        body = json.dumps({"error": {"message": message}, "request_id": self._request}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[bytes, str]:
    """The headers of a request that the guard looks at.

    Raises:
        Refused: One that must be unique is there twice.
    """
    headers: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in {b"host", b"origin", b"content-length", b"sec-fetch-site"}:
            if name in headers:
                raise Refused(400, "a header of the request is there twice")
            headers[name] = value.decode("latin-1")
    return headers


def _limited(receive: Receive, answer: _Answer) -> Receive:
    """Receives the body of a request, as long as it is not too large."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            answer.refused = Refused(413, f"the body exceeds {MOST_BYTES} bytes")
            raise answer.refused
        return message

    return limited
