"""Suppress: buffers changes, and emits only the last one of each row."""

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
    """Buffers changes until their window closes, or for a time limit."""
    suppressed = Suppressed(node, build)
    build.context.shared[node] = suppressed
    return suppressed.clock.watch(suppressed.process)


@getter(plan.Suppress)
def suppressed_rows(node: plan.Suppress, build: Build) -> Getter:
    """Looks up a row as it was last emitted: buffered changes are not visible below."""
    above = build.getter(node.parent)
    shared = build.context.shared

    def get(key: Any) -> tuple[Any, int] | None:
        suppressed: Suppressed = shared[node]
        is_buffered, emitted = suppressed.emitted_value(key)
        if is_buffered:
            return None if emitted is None else (emitted, -1)
        return above(key)

    return get


class Suppressed:
    """The buffered rows, ordered by time and then by the bytes of their keys.

    An entry is (key, new value, old value of the first buffered change, timestamp, headers).
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
        self.emitting: tuple[bytes, Any] | None = None
        for time, order, entry in self.buffer.all():
            self.times[order] = time
            if node.max_bytes is not None:
                self.bytes += self._size(order, entry)

    def process(self, key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        """Processes a change."""
        self.time[0] = max(self.time[0], timestamp)
        order = self.key_bytes(key) or b""
        self._put(order, key, new, old, timestamp, headers)
        self._emit_until(self.time[0] - self.node.wait)
        try:
            self._enforce_limits()
        except ProcessingError as error:
            self.fail(error, key, new, timestamp, headers)

    def emitted_value(self, key: Any) -> tuple[bool, Any]:
        """Whether a row is buffered, and the value that was last emitted for it."""
        order = self.key_bytes(key) or b""
        if self.emitting is not None and self.emitting[0] == order:
            return True, self.emitting[1]
        time = self.times.get(order)
        if time is None:
            return False, None
        return True, self.buffer.get(time, order)[2]

    def _put(self, order: bytes, key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
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

    def _emit_until(self, until: int) -> None:
        """Emits the rows up to a time. A window that ends at the end of time never closes."""
        last = min(until, END_OF_TIME - 1) if self.until_close else until
        while (first := self.buffer.first()) is not None and first[0] <= last:
            self._emit()

    def _enforce_limits(self) -> None:
        while self._is_full():
            if self.node.when_full == "shut_down":
                raise ProcessingError(
                    f"the buffer of suppress {self.node.name!r} is full: {len(self.times)} rows"
                    + (f", {self.bytes} bytes" if self.node.max_bytes is not None else ""),
                    hint="raise max_records or max_bytes, or emit rows early (when_full='emit_early')",
                )
            self._emit()

    def _is_full(self) -> bool:
        records, size = self.node.max_records, self.node.max_bytes
        return (records is not None and len(self.times) > records) or (size is not None and self.bytes > size)

    def _emit(self) -> None:
        _time, order, entry = self.buffer.pop_first()
        key, new, emitted, timestamp, headers = entry
        del self.times[order]
        if self.node.max_bytes is not None:
            self.bytes -= self._size(order, entry)
        if new is None and self.until_close:
            return
        old = None if self.exchange is None else self.exchange(key, new)
        self.emitting = (order, emitted)
        try:
            self.forward(key, new, old, timestamp, headers, True)
        finally:
            self.emitting = None

    def _advance(self, now: int, _headers: Headers) -> None:
        self._emit_until(now - self.node.wait)

    def _size(self, order: bytes, entry: tuple[Any, ...]) -> int:
        value = self.value_bytes(entry[1])
        return len(order) + (0 if value is None else len(value))


def _exchange(sent: Any) -> Callable[[Any, Any], Any]:
    """Returns the function that stores the value sent for a row, and returns the one sent before."""
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
