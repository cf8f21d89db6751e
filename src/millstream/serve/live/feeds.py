"""The last events of a partition, of a report or of a publisher, which all streams share.

A stream keeps no events: only its position in each feed. So a client that does not read costs no memory, and the
server's memory depends on the feeds, not on the clients.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

MOST_EVENTS = 2000
MOST_BYTES = 1 << 20
MOST_BYTES_OF_ALL = 64 << 20


class Event(NamedTuple):
    """An event, encoded once for all streams.

    Attributes:
        position: Its offset, or its number in the feed.
        key: The key of its row; None if channels of single keys do not use the feed.
        rest: Its data in JSON, after the opening brace.
    """

    position: int
    key: bytes | None
    rest: bytes


class Listener(Protocol):
    """Is told of changes of a feed."""

    def changed(self) -> None:
        """The feed has new events, or has ended."""
        ...

    def is_lagging(self, now: float) -> bool:
        """Whether it will take the events of the feed in a moment, but has not yet."""
        ...


class Budget:
    """The bytes of all feeds together."""

    def __init__(self, most: int = MOST_BYTES_OF_ALL) -> None:
        self.most = most
        self.used = 0


class Feed:
    """The last events of a source. Only the event loop uses it.

    >>> feed = Feed("demo", "0", Budget(), most_events=2)
    >>> feed.begin_at(5)
    >>> feed.append([Event(5, None, b"a"), Event(6, None, b"b"), Event(8, None, b"c")], 9)
    >>> feed.begin, feed.end, [event.rest for event in feed.events]
    (6, 9, [b'b', b'c'])

    Args:
        name: Its name among the feeds of the server.
        place: Its place in ids; empty: ids do not have it.
        budget: The bytes of all feeds.
        most_events: How many events it holds.
        only_latest: Each event replaces the one before it: a stream that is slow needs the latest only.

    Attributes:
        begin: It has all events from this position on; None: it has no position yet.
        end: The position of the next event.
        ended: Why there will be no more events; None while there may be.
        returns: How often it went back to an earlier position, because its topic was created anew.
        listeners: The positions of streams in it.
    """

    def __init__(
        self,
        name: Hashable,
        place: str,
        budget: Budget,
        *,
        most_events: int = MOST_EVENTS,
        only_latest: bool = False,
    ) -> None:
        self.name = name
        self.place = place
        self.only_latest = only_latest
        self.begin: int | None = None
        self.end = 0
        self.ended: str | None = None
        self.returns = 0
        self.listeners: set[Listener] = set()
        self.events: list[Event] = []
        self._positions: list[int] = []
        self._most = most_events
        self._bytes = 0
        self._budget = budget

    def begin_at(self, position: int) -> None:
        """Begins, or skips to a position: the events before it are not in the feed."""
        self._drop(len(self.events))
        self.returns += position < self.end
        self.begin = self.end = position
        self._tell()

    def append(self, events: Sequence[Event], end: int) -> None:
        """Appends events, and drops the oldest ones beyond the limits."""
        if self.begin is None:
            self.begin = end
        self.events += events
        self._positions += [event.position for event in events]
        size = sum(len(event.rest) for event in events)
        self._bytes += size
        self._budget.used += size
        self.end = end
        self._trim()
        self._tell()

    def close(self, reason: str) -> None:
        """Ends the feed: its listeners get no more events."""
        self.ended = reason
        self._drop(len(self.events))
        self._tell()

    def since(self, position: int, most_bytes: int) -> tuple[list[Event], int]:
        """Returns the events from a position on, of about that many bytes, and the position after them."""
        first = bisect_left(self._positions, position)
        last, size = first, 0
        while last < len(self.events) and size < most_bytes:
            size += len(self.events[last].rest)
            last += 1
        end = self.end if last == len(self.events) else self._positions[last]
        return self.events[first:last], max(position, end)

    def _trim(self) -> None:
        count, size = len(self.events), self._bytes
        first = 0
        excess = self._budget.used - self._budget.most
        # The last event stays, however large it is.
        while first < count - 1 and (count - first > self._most or size > MOST_BYTES or excess > 0):
            length = len(self.events[first].rest)
            size, excess, first = size - length, excess - length, first + 1
        if first:
            self.begin = self._positions[first - 1] + 1
            self._drop(first)

    def _drop(self, count: int) -> None:
        size = sum(len(event.rest) for event in self.events[:count])
        self._bytes -= size
        self._budget.used -= size
        del self.events[:count], self._positions[:count]

    def _tell(self) -> None:
        for listener in self.listeners:
            listener.changed()
