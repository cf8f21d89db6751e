"""One client's event stream: its positions in the feeds, and the text that it sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from millstream.serve.live.channels import in_id
from millstream.serve.live.feeds import Event, Feed
from millstream.serve.live.sources import LogSource, Source

MOST_BYTES = 1 << 16
"""About how many bytes of events a stream sends at once."""

_PIECE_BYTES = 1 << 18
"""A text that is longer, because it has a large event, is sent in pieces of this size."""

_MOST_SECONDS = 60.0
"""A client that takes nothing for so long is disconnected. It can continue with the id of its last event."""

_SLOW_SECONDS = 0.02
"""A client that takes longer for what it was sent last is slow: others do not wait for it."""

Send = Callable[[bytes], Awaitable[None]]
ReadBehind = Callable[["Cursor"], Awaitable[tuple[list[Event], int]]]


class Subscription:
    """A channel of a stream.

    Args:
        source: What the channel shows.
    """

    def __init__(self, source: Source) -> None:
        channel = source.channel
        self.channel = channel.text
        self.key = source.key
        self.head = f'\nevent: {channel.kind}\ndata: {{"channel":{json.dumps(channel.text)},'.encode()
        self.name = in_id(channel.text)
        self.cursors: list[Cursor] = []
        self.is_ended = False
        self._id: str | None = None

    def moved(self) -> None:
        """A cursor has moved: ids change."""
        self._id = None

    def id_part(self) -> str:
        """The part of ids for this channel; empty if it has no position."""
        if self._id is None:
            places = ",".join(f"{each.feed.place}:{each.next}" for each in self.cursors if each.feed.place)
            self._id = f"{self.name}={places}" if places else ""
        return self._id

    def id_around(self, cursor: Cursor) -> str:
        """The part of ids for this channel without the position of a cursor, which follows it."""
        others = "".join(
            f"{each.feed.place}:{each.next}," for each in self.cursors if each is not cursor and each.feed.place
        )
        return f"{self.name}={others}{cursor.feed.place}:"


class Cursor:
    """The position of a stream in a feed.

    Attributes:
        feed: The feed.
        next: The position of the next event.
        source: The partition from which events are read that the feed does not have any more; None: there is none.
        is_behind: It has not reached the feed yet.
    """

    __slots__ = ("_stream", "feed", "is_behind", "next", "returns", "source", "subscription")

    def __init__(
        self, stream: Stream, subscription: Subscription, feed: Feed, next: int, source: LogSource | None = None
    ) -> None:
        self._stream = stream
        self.subscription = subscription
        self.feed = feed
        self.next = next
        self.source = source
        self.is_behind = source is not None
        self.returns = feed.returns

    def changed(self) -> None:
        """The feed has new events, or has ended."""
        self._stream.ready[self] = None
        self._stream.wake.set()

    def skip_to(self, position: int) -> None:
        """Moves over records that are deleted."""
        self._stream.skip(self, position)

    def is_lagging(self, now: float) -> bool:
        """Whether the stream will take the events of the feed in a moment, but has not yet."""
        since = self._stream.busy_since
        is_slow = since is not None and now - since > _SLOW_SECONDS
        return not is_slow and not self.is_behind and self.next < self.feed.end


class Stream:
    """The stream of a client. The event loop uses it.

    Args:
        read_behind: Reads events before the begin of the feed of a cursor.
        check: Returns why the client may not read any longer; None if it may.
        heartbeat: Seconds after which a stream without events sends a comment, and the client is checked again.
        expires: The time of the loop at which the client must be checked again; None: there is none.
    """

    def __init__(
        self,
        read_behind: ReadBehind,
        check: Callable[[], str | None],
        heartbeat: float,
        expires: float | None = None,
    ) -> None:
        self.subscriptions: list[Subscription] = []
        self.ready: dict[Cursor, None] = {}
        self.wake = asyncio.Event()
        self.busy_since: float | None = None
        self.opened = asyncio.get_running_loop().time()
        self._read_behind = read_behind
        self._check = check
        self._heartbeat = heartbeat
        self._expires = expires
        self._ending: tuple[str, str] | None = None
        self._missed: dict[str, list[dict[str, Any]]] = {}
        self._id = ""

    def add(self, subscription: Subscription) -> None:
        """Adds a channel with its cursors."""
        self.subscriptions.append(subscription)
        for cursor in subscription.cursors:
            cursor.feed.listeners.add(cursor)
            self.ready[cursor] = None
            if cursor.source is not None and cursor.source.missed is not None:
                self._miss(cursor, *cursor.source.missed)

    def cursors(self) -> list[Cursor]:
        """All cursors of the stream."""
        return [cursor for subscription in self.subscriptions for cursor in subscription.cursors]

    def end(self, reason: str, message: str) -> None:
        """Has the stream send a last event, and end."""
        self._ending = (reason, message)
        self.wake.set()

    async def run(self, send: Send) -> None:
        """Sends events until the stream ends."""
        loop = asyncio.get_running_loop()
        await self._send(send, self._begin())
        sent = checked = loop.time()
        while self._ending is None:
            self.wake.clear()
            text = self._take()
            if text:
                await self._send(send, text)
            behind = await self._take_behind()
            if behind:
                await self._send(send, behind)
            is_idle = not text and not behind
            if not is_idle:
                sent = loop.time()
            now = loop.time()
            if now - checked >= self._heartbeat or (self._expires is not None and now >= self._expires):
                checked, self._expires = now, None
                problem = self._check()
                if problem is not None:
                    self.end("access", problem)
                    break
            if now - sent >= self._heartbeat:
                await self._send(send, self._heartbeat_text())
                sent = loop.time()
            if is_idle and not self.ready and self._ending is None:
                await self._wait(min(sent, checked) + self._heartbeat - loop.time())
        assert self._ending is not None
        reason, message = self._ending
        await self._send(send, _event("end", {"reason": reason, "message": message}))

    async def _wait(self, seconds: float) -> None:
        if self._expires is not None:
            seconds = min(seconds, self._expires - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self.wake.wait()
        except TimeoutError:
            pass

    async def _send(self, send: Send, text: bytes) -> None:
        self.busy_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                # Each piece is copied into the buffers of the connection only when the client has taken those before.
                for first in range(0, len(text), _PIECE_BYTES):
                    await send(text[first : first + _PIECE_BYTES])
        finally:
            self.busy_since = None

    def _begin(self) -> bytes:
        """The first event: the channels, and the id from which the stream can be continued.

        It has no id if the client must still be told what it has missed.
        """
        channels = [subscription.channel for subscription in self.subscriptions]
        position = b"" if self._missed else self._id_line()
        return b"retry: 2000\n" + position + _event("subscribed", {"channels": channels})

    def _heartbeat_text(self) -> bytes:
        """A comment. If the position has moved without an event, the id, too: no event is dispatched for it."""
        moved = self._id_line()
        return b": \n" + moved + b"\n" if moved else b": \n\n"

    def _id_line(self) -> bytes:
        current = ";".join(filter(None, (each.id_part() for each in self.subscriptions)))
        if current == self._id:
            return b""
        self._id = current
        return f"id: {current}\n".encode()

    def _take(self) -> bytes:
        """Takes events of the feeds that have some: of each, until there are enough to send."""
        parts: list[bytes] = []
        size = 0
        waiting: dict[Cursor, None] = {}
        ready, self.ready = self.ready, {}
        for cursor in ready:
            if size >= MOST_BYTES:
                waiting[cursor] = None  # before the others in the next round
                continue
            feed = cursor.feed
            if feed.ended is not None:
                if not cursor.subscription.is_ended:
                    cursor.subscription.is_ended = True
                    parts.append(_event("ended", {"channel": cursor.subscription.channel, "message": feed.ended}))
                continue
            if feed.begin is None or not self._has_reached(cursor, feed):
                continue
            events, end = feed.since(cursor.next, MOST_BYTES - size)
            size += self._write(cursor, events, end, parts)
            if cursor.next < feed.end:
                waiting[cursor] = None
        self.ready = {**waiting, **self.ready}
        if self._missed:
            # It has no id: the client has not got the events after it yet.
            parts.insert(0, _event("missed", {"channels": self._missed}))
            self._missed = {}
        return b"".join(parts)

    def _has_reached(self, cursor: Cursor, feed: Feed) -> bool:
        """Whether the feed has the next event of a cursor. A cursor that was there before, and lost it, skips ahead."""
        assert feed.begin is not None
        if cursor.returns != feed.returns:
            cursor.returns = feed.returns
            self.skip(cursor, feed.begin)
        elif cursor.next >= feed.begin:
            cursor.is_behind = False
        elif not cursor.is_behind:
            self.skip(cursor, feed.begin)
        return not cursor.is_behind

    def skip(self, cursor: Cursor, position: int) -> None:
        """Moves a cursor, and has the client told what it misses."""
        if not cursor.feed.only_latest:
            self._miss(cursor, cursor.next, position)
        cursor.next = position
        cursor.subscription.moved()

    def _miss(self, cursor: Cursor, first: int, end: int) -> None:
        source = cursor.source
        place = {} if source is None else {"partition": source.partition}
        self._missed.setdefault(cursor.subscription.channel, []).append({**place, "from": first, "to": end})

    async def _take_behind(self) -> bytes:
        """Reads events that are no longer in a feed, or were never: for one cursor at a time."""
        cursor = next((each for each in self.cursors() if self._is_readable(each)), None)
        if cursor is None:
            return b""
        self.busy_since = asyncio.get_running_loop().time()
        try:
            events, end = await self._read_behind(cursor)
        finally:
            self.busy_since = None
        parts: list[bytes] = []
        if cursor.is_behind:
            self._write(cursor, events, end, parts)
        self.ready[cursor] = None
        return b"".join(parts)

    def _is_readable(self, cursor: Cursor) -> bool:
        begin = cursor.feed.begin
        return cursor.is_behind and begin is not None and cursor.next < begin and cursor.feed.ended is None

    def _write(self, cursor: Cursor, events: list[Event], end: int, parts: list[bytes]) -> int:
        """Writes events, each with the id from which the stream continues after it, and moves the cursor."""
        subscription = cursor.subscription
        key, head, size = subscription.key, subscription.head, 0
        if key is not None:
            events = [event for event in events if event.key == key]
        if events and cursor.feed.place:
            others = [each.id_part() for each in self.subscriptions if each is not subscription]
            before = f"id: {';'.join([*filter(None, others), subscription.id_around(cursor)])}".encode()
            for event in events:
                parts.append(b"%b%d%b%b\n\n" % (before, event.position + 1, head, event.rest))
                size += len(parts[-1])
        else:
            for event in events:
                parts.append(head[1:] + event.rest + b"\n\n")
                size += len(parts[-1])
        if end != cursor.next:
            cursor.next = end
            subscription.moved()
        return size


def _event(kind: str, data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
