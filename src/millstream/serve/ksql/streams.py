"""Answers that go on for a while: rows of queries, and acknowledgements of inserted rows."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator

from fastapi import HTTPException, Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from millstream.serve.access.authorization import Access
from millstream.serve.ksql.codes import TOO_MANY
from millstream.serve.ksql.engine import CallFailed
from millstream.sql.requests.errors import BAD_REQUEST

MOST_LINE = 1_000_000
"""The longest line of ``/inserts-stream``, in bytes."""

_CHECK_SECONDS = 5.0


class Places:
    """Counts answers that are open. It is used in the event loop only.

    Args:
        most: The largest number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self) -> None:
        """Takes a place.

        Raises:
            CallFailed: There is none.
        """
        if self.taken >= self._most:
            raise CallFailed.generic(TOO_MANY, f"{self._most} streams are open: close one, or see --max-streams")
        self.taken += 1

    def give(self) -> None:
        """Gives a place back."""
        self.taken -= 1


class Credentials:
    """Checks during a long answer that its sender is still known.

    Args:
        request: The request.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._checked = time.monotonic()

    def have_ended(self) -> bool:
        """Whether the token or the session has ended; looked at now and then."""
        if time.monotonic() - self._checked < _CHECK_SECONDS:
            return False
        self._checked = time.monotonic()
        access: Access = self._request.app.state.access
        try:
            return access.principal(self._request) is None
        except HTTPException:
            return True


class PlacedResponse(StreamingResponse):
    """An answer that has a place while it goes on. It ends when the client goes away.

    Args:
        content: The answer.
        media_type: Its content type.
        places: Where its place is given back; None: it has none.
    """

    def __init__(self, content: AsyncGenerator[str, None], media_type: str, places: Places | None) -> None:
        super().__init__(content, media_type=media_type)
        self._content = content
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer."""
        try:
            await self._send(scope, receive, send)
        finally:
            if self._places is not None:
                self._places.give()
            await self._content.aclose()

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)


class DuplexResponse(PlacedResponse):
    """An answer that is written while the body of the request is still read, so that nothing else may receive it."""

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for text in self._content:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except ClientDisconnect:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def line_batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[str]]:
    """Yields the lines of a body as they come, without empty ones; the last line may have no end.

    Raises:
        CallFailed: A line is too long, or not UTF-8.
    """
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *lines, rest = rest.split(b"\n")
            if texts := _texts(lines):
                yield texts
        if len(rest) > MOST_LINE:
            raise CallFailed.generic(BAD_REQUEST, f"a line of the request exceeds {MOST_LINE} bytes")
    if texts := _texts([rest]):
        yield texts


def _texts(lines: list[bytearray]) -> list[str]:
    try:
        return [line.decode() for line in lines if line.strip()]
    except UnicodeDecodeError:
        raise CallFailed.generic(BAD_REQUEST, "the body of the request is not UTF-8") from None
