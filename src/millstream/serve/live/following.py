"""Follows the partitions of all streams with one thread, which reads and encodes each record once."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from typing import NamedTuple, TypeAlias

from millstream.errors import MillstreamError, UnknownTopicError
from millstream.log import Log
from millstream.log.api import Fetched, Follower
from millstream.serve.live.encoding import Row
from millstream.serve.live.feeds import Event, Feed
from millstream.serve.live.sources import LogSource
from millstream.text.escaping import trace_text

Place: TypeAlias = tuple[str, int]
Appends: TypeAlias = list[tuple[Feed, list[Event]]]

_POLL_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_MOST_RECORDS = 1000
_AT_ONCE = 256
"""How many records are encoded before the streams send them."""

_BEHIND_SECONDS = 10.0
"""How long the thread may be behind the end of a partition. Then it skips to the end: the streams show the present."""


class _Joined(NamedTuple):
    feed: Feed
    source: LogSource


class LogPoller:
    """Reads partitions for feeds. It has a thread while there are feeds; its methods are called in the event loop.

    Args:
        log: Returns the log.
        deliver: Appends events to feeds, and returns when the streams had a chance to send them.
    """

    def __init__(self, log: Callable[[], Log], deliver: Callable[[Appends, int], Awaitable[None]]) -> None:
        self._log = log
        self._deliver = deliver
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        # Only the thread uses the following.
        self._follower: Follower | None = None
        self._joined: dict[Place, list[_Joined]] = {}
        self._positions: dict[Place, int] = {}
        self._behind_since: dict[Place, float] = {}

    def join(self, feed: Feed, source: LogSource) -> None:
        """Has a feed receive the records of a partition. It begins at the position that the thread has reached."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="millstream-events", daemon=True)
            self._thread.start()
        self._orders.put(lambda: self._join(_Joined(feed, source)))

    def leave(self, feed: Feed) -> None:
        """Ends the delivery to a feed."""
        self._orders.put(lambda: self._leave(feed))

    def close(self) -> None:
        """Ends the thread, soon."""
        self._is_over.set()
        self._orders.put(None)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._take_orders()
                if self._follower is None and self._joined:
                    self._begin_again()
                if self._follower is not None and self._joined:
                    for fetched in self._follower.poll(_POLL_SECONDS, _MOST_RECORDS):
                        self._pass_on(fetched)
                        self._skip_if_late(fetched)
            except Exception as error:  # noqa: BLE001  (streams would wait for ever for a thread that has ended)
                if not isinstance(error, MillstreamError):
                    print(f"millstream: event streams: {trace_text(error)}", file=sys.stderr, flush=True)  # noqa: T201
                self._close_follower()
                self._is_over.wait(_RETRY_SECONDS)
        self._close_follower()

    def _take_orders(self) -> None:
        order: Callable[[], None] | None
        with contextlib.suppress(queue.Empty):
            order = self._orders.get(block=not self._joined)
            while True:
                if order is not None:
                    order()
                order = self._orders.get_nowait()

    def _join(self, joined: _Joined) -> None:
        place = (joined.source.topic, joined.source.partition)
        if place not in self._positions:
            self._positions[place] = joined.source.end
            if self._follower is not None:
                try:
                    self._follower.follow({place: joined.source.end})
                except MillstreamError:
                    self._close_follower()  # it is found out why when all are followed again
        self._joined.setdefault(place, []).append(joined)
        self._call(joined.feed.begin_at, self._positions[place])

    def _leave(self, feed: Feed) -> None:
        for place, members in list(self._joined.items()):
            left = [each for each in members if each.feed is not feed]
            if left:
                self._joined[place] = left
            else:
                self._remove(place)

    def _remove(self, place: Place) -> None:
        del self._joined[place], self._positions[place]
        self._behind_since.pop(place, None)
        if self._follower is not None:
            try:
                self._follower.unfollow([place])
            except (MillstreamError, KeyError):
                self._close_follower()

    def _pass_on(self, fetched: Fetched) -> None:
        """Encodes records in parts, each for all feeds of the partition, and waits until the streams have taken it."""
        place = (fetched.topic, fetched.partition)
        rows = list(_rows(fetched))
        for first in range(0, len(rows), _AT_ONCE):
            part = rows[first : first + _AT_ONCE]
            end = fetched.next if first + _AT_ONCE >= len(rows) else part[-1][0] + 1
            appends = [(feed, source.encode(part)) for feed, source in self._joined.get(place, ())]
            self._wait_for(self._deliver(appends, end))
            if self._is_over.is_set():
                return
        self._positions[place] = fetched.next

    def _skip_if_late(self, fetched: Fetched) -> None:
        assert self._follower is not None
        place = (fetched.topic, fetched.partition)
        if not self._follower.has_more(*place):
            self._behind_since.pop(place, None)
        elif time.monotonic() - self._behind_since.setdefault(place, time.monotonic()) > _BEHIND_SECONDS:
            del self._behind_since[place]
            self._move(place, self._log().ends([place[0]])[place[0]][place[1]])
            self._follower.follow({place: self._positions[place]})

    def _begin_again(self) -> None:
        """Follows all partitions with a new follower, after an error, from where they are."""
        log = self._log()
        for place in list(self._joined):
            topic, partition = place
            try:
                log.topic(topic).check_partition(partition)
                start, end = log.starts([topic])[topic][partition], log.ends([topic])[topic][partition]
            except UnknownTopicError as error:
                for joined in self._joined[place]:
                    self._call(joined.feed.close, error.message)
                del self._joined[place], self._positions[place]
                continue
            if not start <= self._positions[place] <= end:
                self._move(place, start if self._positions[place] < start else end)
        follower = log.follow()
        try:
            follower.follow(self._positions)
        except MillstreamError:
            follower.close()
            raise
        self._follower = follower

    def _move(self, place: Place, position: int) -> None:
        self._positions[place] = position
        for joined in self._joined[place]:
            self._call(joined.feed.begin_at, position)

    def _close_follower(self) -> None:
        if self._follower is not None:
            with contextlib.suppress(MillstreamError):
                self._follower.close()
            self._follower = None

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _wait_for(self, delivery: Awaitable[None]) -> None:
        assert self._loop is not None
        try:
            future: Future[None] = asyncio.run_coroutine_threadsafe(_awaited(delivery), self._loop)
        except RuntimeError:
            self._is_over.set()
            return
        while not self._is_over.is_set():
            try:
                future.result(0.5)
                return
            except FutureTimeoutError:
                pass


async def _awaited(delivery: Awaitable[None]) -> None:
    await delivery


def _rows(fetched: Fetched) -> Iterator[Row]:
    headers = fetched.headers if fetched.headers is not None else [()] * len(fetched.offsets)
    return zip(fetched.offsets, fetched.timestamps, fetched.keys, fetched.values, headers, strict=True)
