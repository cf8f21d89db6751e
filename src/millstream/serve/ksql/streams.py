"""Answers that go on for a while: rows of queries, and acknowledgements of inserted rows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from millstream.serve.access.authorization import Access
from millstream.serve.ksql.engine import TOO_MANY, CallFailed
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
        return access.principal(self._request) is None


class DuplexResponse(Response):
    """An answer that is written while the body of the request is still read.

    Args:
        content: The answer.
        media_type: Its content type.
    """

    def __init__(self, content: AsyncIterator[str], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._content = content

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Sends the answer."""
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
            if found := _texts(lines):
                yield found
        if len(rest) > MOST_LINE:
            raise CallFailed.generic(BAD_REQUEST, f"a line of the request exceeds {MOST_LINE} bytes")
    if found := _texts([rest]):
        yield found


def _texts(lines: list[bytearray]) -> list[str]:
    try:
        return [line.decode() for line in lines if line.strip()]
    except UnicodeDecodeError:
        raise CallFailed.generic(BAD_REQUEST, "the body of the request is not UTF-8") from None
