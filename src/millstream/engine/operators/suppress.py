"""Suppress: holds changes back, and lets only the last one of each row go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.durations import END_OF_TIME
from millstream.core.records import Headers, Windowed
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.context import Getter
from millstream.engine.stream_clock import StreamClock
from millstream.errors import ProcessingError
from millstream.plan import tables as plan


@operator(plan.Suppress)
def suppress(node: plan.Suppress, build: Build) -> Process:
    """Holds changes back until their window closes, or for a time."""
    held = Suppressed(node, build)
    build.context.shared[node] = held
    return held.clock.watch(held.process)


@getter(plan.Suppress)
def suppressed_rows(node: plan.Suppress, build: Build) -> Getter:
    """Looks a row up as those below know it: what is held back has not happened yet."""
    above = build.getter(node.parent)
    shared = build.context.shared

    def get(key: Any) -> tuple[Any, int] | None:
        held: Suppressed = shared[node]
        known, before = held.before(key)
        if known:
            return None if before is None else (before, -1)
        return above(key)

    return get


class Suppressed:
    """The rows that are held back, ordered by their time and then by the bytes of their keys.

    An entry is (key, new value, the old value that came with the first change held back, timestamp, headers).
    """

    def __init__(self, node: plan.Suppress, build: Build) -> None:
        self.node = node
        self.buffer = build.context.store(node.store)
        self.exchange = _exchange(build.context.store(node.sent)) if node in build.facts.sends_old else None
        self.clock = StreamClock(node, build.context, node.idle, self._advance, lambda: bool(self.times))
        self.time = self.clock.cell
        self.forward = build.forward(node)
        self.fail = build.failure(node)
        self.until_close = node.until == "window_closes"
        self.key_bytes = node.key.serialize
        self.value_bytes = node.value.serialize
        self.times: dict[bytes, int] = {}
        self.bytes = 0
        self.leaving: tuple[bytes, Any] | None = None
        for time, order, entry in self.buffer.all():
            self.times[order] = time
            if node.max_bytes is not None:
                self.bytes += self._size(order, entry)

    def process(self, key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        """Takes a change."""
        self.time[0] = max(self.time[0], timestamp)
        order = self.key_bytes(key) or b""
        self._hold(order, key, new, old, timestamp, headers)
        self._release(self.time[0] - self.node.wait)
        try:
            self._make_room()
        except ProcessingError as error:
            self.fail(error, key, new, timestamp, headers)

    def before(self, key: Any) -> tuple[bool, Any]:
        """Whether a row is held back, and the value that those below have of it."""
        order = self.key_bytes(key) or b""
        if self.leaving is not None and self.leaving[0] == order:
            return True, self.leaving[1]
        time = self.times.get(order)
        if time is None:
            return False, None
        return True, self.buffer.get(time, order)[2]

    def _hold(self, order: bytes, key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        time = self.times.get(order)
        if time is None:
            time = self.times[order] = key.end if self.until_close and isinstance(key, Windowed) else timestamp
        else:
            former = self.buffer.get(time, order)
            old = former[2]
            if self.node.max_bytes is not None:
                self.bytes -= self._size(order, former)
        entry = (key, new, old, timestamp, headers)
        self.buffer.put(time, order, entry)
        if self.node.max_bytes is not None:
            self.bytes += self._size(order, entry)

    def _release(self, until: int) -> None:
        """Emits the rows whose time has come. A window that ends at the end of time never closes."""
        last = min(until, END_OF_TIME - 1) if self.until_close else until
        while (first := self.buffer.first()) is not None and first[0] <= last:
            self._emit()

    def _make_room(self) -> None:
        while self._full():
            if self.node.when_full == "shut_down":
                raise ProcessingError(
                    f"suppress {self.node.name!r} holds back more rows than it may: {len(self.times)} rows"
                    + (f", {self.bytes} bytes" if self.node.max_bytes is not None else ""),
                    hint="raise max_records or max_bytes, or let rows go early (when_full='emit_early')",
                )
            self._emit()

    def _full(self) -> bool:
        most, most_bytes = self.node.max_records, self.node.max_bytes
        return (most is not None and len(self.times) > most) or (most_bytes is not None and self.bytes > most_bytes)

    def _emit(self) -> None:
        _time, order, entry = self.buffer.pop_first()
        key, new, before, timestamp, headers = entry
        del self.times[order]
        if self.node.max_bytes is not None:
            self.bytes -= self._size(order, entry)
        if new is None and self.until_close:
            return
        old = None if self.exchange is None else self.exchange(key, new)
        self.leaving = (order, before)
        try:
            self.forward(key, new, old, timestamp, headers, True)
        finally:
            self.leaving = None

    def _advance(self, now: int, _headers: Headers) -> None:
        self._release(now - self.node.wait)

    def _size(self, order: bytes, entry: tuple[Any, ...]) -> int:
        value = self.value_bytes(entry[1])
        return len(order) + (0 if value is None else len(value))


def _exchange(sent: Any) -> Callable[[Any, Any], Any]:
    """Makes the function that notes what is sent for a row, and gives what was sent before."""
    get, put = sent.get, sent.put

    def plain(key: Any, value: Any) -> Any:
        old = get(key)
        put(key, value)
        return old

    def window(key: Windowed[Any], value: Any) -> Any:
        old = get(key.key, key.start)
        put(key.key, key.start, value)
        return old

    def session(key: Windowed[Any], value: Any) -> Any:
        old = get(key.key, key.start, key.end)
        put(key.key, key.start, key.end, value)
        return old

    kinds = {"key-value": plain, "window": window, "session": session}
    return kinds[sent.spec.kind]
