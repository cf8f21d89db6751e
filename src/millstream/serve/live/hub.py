"""The event streams of a server, and the feeds that they share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from fastapi import HTTPException

from millstream.core.records import Headers
from millstream.errors import MillstreamError, OffsetOutOfRangeError
from millstream.log.blocks import decode_headers
from millstream.serve.access.roles import Principal
from millstream.serve.data import ServedData
from millstream.serve.live.channels import Channel
from millstream.serve.live.encoding import rest_of
from millstream.serve.live.feeds import Budget, Event, Feed
from millstream.serve.live.following import Appends, LogPoller
from millstream.serve.live.positions import Positions
from millstream.serve.live.reports import ReportPoller
from millstream.serve.live.sources import LogSource, Source, Sources
from millstream.serve.live.streams import Cursor, Stream, Subscription
from millstream.serve.operations.decoding import Decoder

T = TypeVar("T")

MOST_PARTITIONS = 500
"""The largest number of partitions that a stream follows."""

MOST_FEEDS = 2000
"""The largest number of partitions that all streams follow together."""

_READ_BYTES = 1 << 18
_SETTLE_SECONDS = 0.1
_RETRY_SECONDS = 0.5
_START_SECONDS = 30.0
_THREADS = 2
"""Reads of earlier records, for all streams together: more would take processors from the applications."""


class Hub:
    """Opens and closes event streams, and passes events on to them.

    All methods but `publish` are called in the event loop.

    Args:
        data: The data of the server.
        decoder: Its decoder.
    """

    def __init__(self, data: ServedData, decoder: Decoder) -> None:
        self._data = data
        self._most = data.options.most_streams
        self._heartbeat = data.options.heartbeat_seconds
        self._sources = Sources(data, decoder)
        self._budget = Budget()
        self._feeds: dict[Hashable, Feed] = {}
        self._streams: dict[Stream, asyncio.Task[None] | None] = {}
        self._poller = LogPoller(lambda: data.log, self._deliver)
        self._reports = ReportPoller(data, self._in_thread)
        self._threads = ThreadPoolExecutor(_THREADS, "millstream-event-reads")
        self._run = secrets.token_hex(5)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._published = {"alerts": Feed("alerts", self._run, self._budget)}
        for feed in self._published.values():
            feed.begin_at(0)
        self._is_closed = False

    def publish(self, channel: Literal["alerts"], content: Mapping[str, Any]) -> None:
        """Sends an event to all streams that have the channel. It may be called from any thread.

        Args:
            channel: The channel.
            content: The data of the event, which needs at least one field. The name of the channel is added.
        """
        rest = rest_of(content)
        loop = self._loop
        if loop is None:  # there was no stream yet
            self._publish(channel, rest)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._publish, channel, rest)

    def _publish(self, channel: Literal["alerts"], rest: bytes) -> None:
        feed = self._published[channel]
        feed.append([Event(feed.end, None, rest)], feed.end + 1)

    def check_limit(self) -> None:
        """Raises an error if no further stream can be opened.

        Raises:
            HTTPException: 503: there are too many, or the server stops.
        """
        now = asyncio.get_running_loop().time()
        for stream, task in list(self._streams.items()):
            if task is None and now - stream.opened > _START_SECONDS:  # its request has ended before it began
                self.leave(stream)
        if self._is_closed:
            raise HTTPException(503, "the server stops", {"Retry-After": "5"})
        if len(self._streams) >= self._most:
            raise HTTPException(
                503,
                f"{self._most} event streams are open, and there may be no more: close one, share one among the tabs "
                "of a browser, or raise the limit with --max-streams",
                {"Retry-After": "5"},
            )

    async def open(
        self,
        channels: list[Channel],
        after: Positions,
        principal: Principal,
        check: Callable[[], str | None],
        lifetime: float | None,
    ) -> Stream:
        """Opens a stream. `attach` must follow soon, and `leave` at the end.

        Args:
            channels: Its channels.
            after: The positions after which it continues.
            principal: The client.
            check: Returns why the client may not read any longer; None if it may.
            lifetime: Seconds after which that must be checked.

        Raises:
            MillstreamError: A channel does not exist.
            HTTPException: 403: the client may not read one; 400: there are too many partitions; 503: too many streams.
        """
        self.check_limit()
        sources = await self._in_thread(
            lambda: [self._sources.source(channel, principal, after.get(channel.text, {})) for channel in channels]
        )
        self.check_limit()
        places = {each.feed for source in sources for each in source.partitions}
        if len(places) > MOST_PARTITIONS:
            raise HTTPException(400, f"the channels have {len(places)} partitions: at most {MOST_PARTITIONS}")
        if len(places - self._feeds.keys()) + len(self._feeds) > MOST_FEEDS:
            raise HTTPException(503, "the event streams follow too many partitions", {"Retry-After": "5"})
        self._loop = asyncio.get_running_loop()
        expires = None if lifetime is None else self._loop.time() + lifetime
        stream = Stream(self._read_behind, check, self._heartbeat, expires)
        self._streams[stream] = None
        for source in sources:
            stream.add(self._subscription(stream, source, after.get(source.channel.text, {})))
        return stream

    def attach(self, stream: Stream, task: asyncio.Task[None]) -> None:
        """Notes the task that sends a stream."""
        self._streams[stream] = task

    def leave(self, stream: Stream) -> None:
        """Removes a stream, and the feeds that no other stream needs."""
        if stream not in self._streams:
            return
        del self._streams[stream]
        for cursor in stream.cursors():
            feed = cursor.feed
            feed.listeners.discard(cursor)
            if not feed.listeners and self._feeds.pop(feed.name, None) is not None:
                self._poller.leave(feed)
                self._reports.leave(feed)
                feed.close("no stream listens")

    async def close(self) -> None:
        """Ends all streams: each client is told, and those that do not take it are cut off."""
        self._is_closed = True
        tasks = [task for task in self._streams.values() if task is not None]
        for stream in self._streams:
            stream.end("shutdown", "the server stops")
        if tasks:
            _done, waiting = await asyncio.wait(tasks, timeout=_RETRY_SECONDS)
            for task in waiting:
                task.cancel()
        self._poller.close()
        self._reports.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _subscription(self, stream: Stream, source: Source, after: Mapping[str, int]) -> Subscription:
        channel = source.channel
        subscription = Subscription(source)
        for each in source.partitions:
            feed = self._feeds.get(each.feed)
            if feed is None:
                feed = self._feeds[each.feed] = Feed(each.feed, str(each.partition), self._budget)
                self._poller.join(feed, each)
            subscription.cursors.append(Cursor(stream, subscription, feed, each.next, each))
        if channel.kind == "alerts":
            feed = self._published["alerts"]
            position = min(after.get(self._run, feed.end), feed.end)
            subscription.cursors.append(Cursor(stream, subscription, feed, position))
        elif not source.partitions:
            name = (channel.kind, channel.name)
            report = self._feeds.get(name)
            if report is None:
                report = self._feeds[name] = Feed(name, "", self._budget, most_events=1, only_latest=True)
                self._reports.join(report, channel)
            subscription.cursors.append(Cursor(stream, subscription, report, 0))
        return subscription

    async def _read_behind(self, cursor: Cursor) -> tuple[list[Event], int]:
        """Reads the events of a partition up to the begin of its feed, or the first of them."""
        source, start, end = cursor.source, cursor.next, cursor.feed.begin
        assert source is not None
        assert end is not None
        try:
            return await self._in_thread(lambda: self._read(source, start, end))
        except OffsetOutOfRangeError:
            starts = await self._in_thread(lambda: self._data.log.starts([source.topic])[source.topic])
            begin = starts[source.partition]
            cursor.skip_to(begin if begin > start else end)
        except MillstreamError:  # the log cannot be reached, or the topic is deleted: the poller finds out
            await asyncio.sleep(_RETRY_SECONDS)
        return [], cursor.next

    def _read(self, source: LogSource, start: int, end: int) -> tuple[list[Event], int]:
        table = self._data.log.read(source.topic, source.partition, start, end, max_bytes=_READ_BYTES)
        rows = [
            (row["offset"], row["timestamp"], row["key"], row["value"], _headers(row["headers"]))
            for row in table.to_pylist()
        ]
        return source.encode(rows), rows[-1][0] + 1 if rows else end

    async def _deliver(self, appends: Appends, end: int) -> None:
        """Appends events to feeds, and waits a little until the streams that keep up have sent them."""
        for feed, events in appends:
            if feed.ended is None:
                feed.append(events, end)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLE_SECONDS
        pause = 0.0
        while (now := loop.time()) < deadline:
            if not any(listener.is_lagging(now) for feed, _events in appends for listener in feed.listeners):
                return
            await asyncio.sleep(pause)
            pause = 0.001

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)


def _headers(data: bytes | None) -> Headers:
    return () if data is None else decode_headers(data)
