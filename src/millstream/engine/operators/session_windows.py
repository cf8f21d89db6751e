"""Aggregates in session windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers, Windowed
from millstream.engine.aggregation import compile_aggregation
from millstream.engine.compile import Build, Process
from millstream.engine.errors import FAILURES
from millstream.engine.operators.time_windows import has_unemitted
from millstream.engine.stream_clock import StreamClock
from millstream.engine.table_stores import value_check
from millstream.plan import aggregates as plan
from millstream.plan.windows import SessionWindow


def session_windows(node: plan.WindowAggregate, build: Build) -> Process:  # noqa: C901, PLR0915  (two closures)
    """Maintains the sessions of each key: a record merges the sessions within the inactivity gap into one."""
    assert isinstance(node.window, SessionWindow)
    gap, grace = node.window.gap, node.window.grace
    store = build.context.store(node.store)
    find, put, remove = store.find, store.put, store.remove
    forward = None if node.emit_on_close else build.forward(node)
    emit = _emitter(node, build, gap + grace) if node.emit_on_close else None
    has_pending = has_unemitted(node, build) if emit is not None else None
    clock = StreamClock(node, build.context, node.window.idle, emit, has_pending)
    time = clock.cell
    no_key, too_late = build.drop(node, "null key"), build.drop(node, "late")
    late = build.late(node)
    fail = build.failure(node, node.aggregation.user_function)
    steps = compile_aggregation(node.aggregation)
    begin, merge, add = steps.initial, steps.merge, steps.add
    kind, check = value_check(node.store)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            no_key(key, value, timestamp, headers)
            return
        now = time[0] = max(time[0], timestamp)
        sessions = find(key, timestamp - gap, timestamp + gap)
        start = end = timestamp
        try:
            agg = begin()
            for first, last, former in sessions:
                agg = merge(key, agg, former)
                start, end = min(start, first), max(end, last)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        if end < now - grace - gap:
            too_late(key, value, timestamp, headers)
            if late is not None:
                late(key, value, timestamp, headers)
        elif not update(key, value, (timestamp, start, end), (sessions, agg), headers):
            return
        if emit is not None:
            emit(now, headers)

    def update(
        key: Any, value: Any, times: tuple[int, int, int], before: tuple[list[Any], Any], headers: Headers
    ) -> bool:
        """Replaces the sessions by the one that they and the record are merged into; returns False if that failed."""
        timestamp, start, end = times
        sessions, agg = before
        in_place = start == end == timestamp
        if not in_place:
            for first, last, former in sessions:
                remove(key, first, last)
                if forward is not None:
                    forward(Windowed(key, first, last), None, former, last, (), True)
        try:
            agg = add(key, value, agg)
            if type(agg) is not kind and agg is not None:
                check(agg)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return False
        put(key, start, end, agg)
        if forward is not None:
            forward(Windowed(key, start, end), agg, sessions[0][2] if in_place and sessions else None, end, (), True)
        return True

    return clock.watch(process)


def _emitter(node: plan.WindowAggregate, build: Build, wait: int) -> Callable[[int, Headers], None]:
    """Returns the function that emits the sessions that have closed, each once."""
    store = build.context.store(node.store)
    forward = build.forward(node)
    emitted = build.context.cell(node, "emitted", -1)
    store.release(emitted[0])

    def emit(now: int, headers: Headers) -> None:
        bound = now - wait - 1
        if bound <= emitted[0]:
            return
        closed = store.rows_between(emitted[0], bound)
        emitted[0] = bound
        for key, start, end, value in closed:
            forward(Windowed(key, start, end), value, None, end, headers, True)
        store.release(bound)

    return emit
