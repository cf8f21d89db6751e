"""The route of event streams."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from millstream.serve.access.authorization import Access, require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.live.channels import MOST_CHANNELS, parse_channels
from millstream.serve.live.hub import Hub
from millstream.serve.live.positions import MOST_CHARACTERS, read_id
from millstream.serve.live.streams import Stream

router = APIRouter(prefix="/api/v1/events", tags=["events"])

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]


class EventResponse(StreamingResponse):
    """Sends a stream until it ends, or the client disconnects.

    Args:
        hub: The hub of the stream.
        stream: The stream.
    """

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, stream: Stream) -> None:
        super().__init__((), headers={"X-Accel-Buffering": "no"})
        self._hub = hub
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream."""

        async def send_text(text: bytes) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": True})

        async def send_all() -> None:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._stream.run(send_text)

        sending = asyncio.ensure_future(send_all())
        self._hub.attach(self._stream, sending)
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(self._stream)
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled():
            error = sending.exception()
            if error is not None and not isinstance(error, TimeoutError):
                raise error
            await send({"type": "http.response.body", "body": b"", "more_body": False})


@router.get(
    "",
    summary="Live events",
    response_class=EventResponse,
    responses={
        200: {"description": "Events.", "content": {"text/event-stream": {}}},
        503: {"description": "There are too many streams: try again after the seconds of Retry-After."},
    },
)
async def events(
    request: Request,
    principal: Viewer,
    channel: Annotated[list[str], Query(description="A channel; repeat it.", max_length=2 * MOST_CHANNELS)],
    last_event_id: Annotated[
        str | None, Query(description="The id after which to continue.", max_length=MOST_CHARACTERS)
    ] = None,
    last_event: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The same, as browsers send it.")
    ] = None,
) -> EventResponse:
    """Sends events of all channels as they happen.

    The channels are `applications`, `application:ID`, `alerts`, `store:APPLICATION/STORE`,
    `key:APPLICATION/STORE/KEY` with a key in JSON, and `topic:NAME` or `topic:NAME/PARTITION`. Topics begin at the end,
    or as `@start` or `@OFFSET` behind the name says. The kind of an event is the word before the colon; its data has
    the channel. Further kinds are `subscribed`, the first event; `missed`, if the client was too slow, with the offsets
    that were left out; `ended`, if a channel ends, because its topic is deleted; and `end`, the last event.

    Every event of a topic or store has an id, from which another stream continues, also of other channels.
    """
    hub: Hub = request.app.state.hub
    access: Access = request.app.state.access
    channels = parse_channels(channel)
    # A browser that connects again sends the header; the address still has the id with which the page began.
    after = read_id(last_event or last_event_id or "")

    def problem() -> str | None:
        now = access.principal(request)
        if now is None:
            return "the token or the session has expired, or was revoked"
        rights = (now.name, now.role, now.stores)
        return None if rights == (principal.name, principal.role, principal.stores) else "the rights have changed"

    lifetime = None if principal.expires is None else max(0.0, principal.expires - time.time())
    return EventResponse(hub, await hub.open(channels, after, principal, problem, lifetime))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
