"""Aggregates in sliding windows: every distinct set of records that are at most a time difference apart."""

from __future__ import annotations

from typing import Any

from millstream.core.durations import later
from millstream.core.records import Headers, Windowed
from millstream.engine.aggregation import compile_aggregation
from millstream.engine.compile import Build, Process
from millstream.engine.errors import FAILURES
from millstream.engine.operators.time_windows import close_windows, has_unemitted
from millstream.engine.stream_clock import StreamClock
from millstream.engine.table_stores import value_check
from millstream.plan import aggregates as plan
from millstream.plan.windows import SlidingWindow


class _Failed(Exception):  # noqa: N818
    """The user function failed for a record: the record is not processed further."""


def sliding_windows(node: plan.WindowAggregate, build: Build) -> Process:
    """Maintains the windows that start or end with a record."""
    operator = SlidingWindows(node, build)
    return operator.clock.watch(operator.process)


class SlidingWindows:
    """A record updates every window that contains it, and creates up to three new ones.

    These are its left window, which ends with it; the right window of the record before it, which starts just after
    that record; and its own right window, if that already contains records. The timestamp of a window is that of its
    latest record, so the neighbours of a record are found without storing records.
    """

    def __init__(self, node: plan.WindowAggregate, build: Build) -> None:
        assert isinstance(node.window, SlidingWindow)
        self.difference = node.window.difference
        self.grace = node.window.grace
        self.store = build.context.store(node.store)
        self.emit = has_pending = None
        if node.emit_on_close:
            self.emit = close_windows(node, build, self.grace + self.difference + 1, self.difference)
            has_pending = has_unemitted(node, build)
        self.clock = StreamClock(node, build.context, node.window.idle, self.emit, has_pending)
        self.time = self.clock.cell
        self.forward = None if node.emit_on_close else build.forward(node)
        self.late = build.late(node)
        self.no_key, self.no_value = build.drop(node, "null key"), build.drop(node, "null value")
        self.too_late = build.drop(node, "late")
        self.fail = build.failure(node, node.aggregation.user_function)
        steps = compile_aggregation(node.aggregation)
        self.first, self.following = steps.begin, steps.add
        self.serde = node.store.value
        self.kind, self.check = value_check(node.store)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Processes a record."""
        if key is None or value is None:
            (self.no_key if key is None else self.no_value)(key, value, timestamp, headers)
            return
        now = self.time[0] = max(self.time[0], timestamp)
        closed = now - self.grace
        if timestamp + self.difference < closed:
            self.too_late(key, value, timestamp, headers)
            if self.late is not None:
                self.late(key, value, timestamp, headers)
            return
        try:
            if timestamp < self.difference:
                self._early_windows(key, value, timestamp, headers, closed)
                return
            self._windows(key, value, timestamp, headers, closed)
        except _Failed:
            return
        if self.emit is not None:
            self.emit(now, headers)

    def _windows(self, key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        record = (key, value, timestamp, headers, closed)
        starts = set()
        right: tuple[Any, int] | None = None
        left: tuple[Any, int] | None = None
        has_left = has_right = False
        previous: int | None = None
        for start, row in self.store.fetch(key, max(0, timestamp - 2 * self.difference), timestamp + 1, True):
            starts.add(start)
            end = start + self.difference
            latest = row[1]
            if start == timestamp + 1:
                has_right = True
            elif end > timestamp:
                if right is None:
                    right = row
                self._update(record, start, row)
            elif end == timestamp:
                self._update(record, start, row)
                if latest >= timestamp:
                    return
                previous = latest
                has_left = True
            else:
                left = row
                previous = latest
                break
        if previous is not None:
            begin = previous + 1
            if begin not in starts and begin + self.difference >= timestamp:
                self._create(record, begin, None)
        if not has_left:
            near = previous is not None and timestamp - self.difference <= previous
            self._create(record, timestamp - self.difference, left if near else None)
        if not has_right and right is not None and right[1] > timestamp:
            self._copy(record, timestamp + 1, right)

    def _early_windows(self, key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        """Processes a record whose left window would start before time 0: all such records share the window from 0."""
        record = (key, value, timestamp, headers, closed)
        starts = set()
        combined: tuple[Any, int] | None = None
        right: tuple[Any, int] | None = None
        has_right = False
        previous: int | None = None
        for start, row in self.store.fetch(key, 0, timestamp + 1):
            starts.add(start)
            if start == 0:
                combined = row
                if row[1] < timestamp:
                    previous = row[1]
            elif start <= timestamp:
                right = row
                self._update(record, start, row)
            else:
                has_right = True
        if right is None and combined is not None and combined[1] > timestamp:
            right = combined
        if not has_right and right is not None and right[1] > timestamp:
            self._copy(record, timestamp + 1, right)
        if previous is not None and previous + 1 not in starts:
            self._create(record, previous + 1, None)
        if combined is None:
            self._create(record, 0, None)
        else:
            self._update(record, 0, combined)

    def _update(self, record: tuple[Any, ...], start: int, row: tuple[Any, int]) -> None:
        """Adds the record to an existing window."""
        self._put(record, start, row, row[0])

    def _create(self, record: tuple[Any, ...], start: int, seed: tuple[Any, int] | None) -> None:
        """Creates a window with the record in it, and with the aggregate of an earlier window if it includes that."""
        shown = self.store.get(record[0], start)
        self._put(record, start, seed, None if shown is None else shown[0])

    def _put(self, record: tuple[Any, ...], start: int, base: tuple[Any, int] | None, old: Any) -> None:
        key, value, timestamp, headers, closed = record
        if start + self.difference < closed:
            self.too_late(key, value, timestamp, headers)
            return
        try:
            if base is None:
                new = self.first(key, value)
            else:
                agg, before = base
                if (
                    not self.serde.immutable
                ):  # another window may share it, and it is the old value: it must not change in place
                    agg = self.serde.deserialize(self.serde.serialize(agg))
                new = self.following(key, value, agg)
                timestamp = max(timestamp, before)
            if type(new) is not self.kind and new is not None:
                self.check(new)
        except FAILURES as error:
            self.fail(error, key, value, timestamp, headers)
            raise _Failed from error
        self._write(key, start, new, old, timestamp, headers)

    def _copy(self, record: tuple[Any, ...], start: int, row: tuple[Any, int]) -> None:
        """Creates the record's right window, with the aggregate that a window around it had before the record."""
        key, _, _, headers, _ = record
        shown = self.store.get(key, start)
        self._write(key, start, row[0], None if shown is None else shown[0], row[1], headers)

    def _write(self, key: Any, start: int, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        self.store.put(key, start, None if new is None else (new, timestamp))
        if self.forward is not None:
            window = Windowed(key, start, later(start, self.difference))
            self.forward(window, new, old, timestamp, headers, True)
