"""Aggregates in tumbling, hopping and unlimited windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from millstream.core.durations import END_OF_TIME, later
from millstream.core.records import Headers, Windowed
from millstream.engine.aggregation import compile_aggregation
from millstream.engine.chunks import Bulk, Chunk, KeyBytes
from millstream.engine.compile import Build, Process, getter
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.operators.aggregates import needs_fresh_copy
from millstream.engine.stream_clock import StreamClock
from millstream.engine.table_stores import value_check
from millstream.plan import aggregates as plan
from millstream.plan.windows import SessionWindow, TimeWindow, UnlimitedWindow
from millstream.serde.key_layouts import window_key
from millstream.serde.windowed import TimeWindowedSerde

_new = tuple.__new__

_FEW_RUNS = 8
_RUN_LENGTH = 16
"""Records are counted in runs of consecutive records of one window if the runs are few, or this long on average."""

Update = Callable[[Any, Any, int, int, Headers], bool]
"""Aggregates a record (key, value) into the window of a start; returns whether the user function failed."""


@getter(plan.WindowAggregate)
def window_rows(node: plan.WindowAggregate, build: Build) -> Getter:
    """Looks up rows in the store by windowed key."""
    store = build.context.store(node.store)
    if isinstance(node.window, SessionWindow):

        def session(key: Windowed[Any]) -> tuple[Any, int] | None:
            value = store.get(key.key, key.start, key.end)
            return None if value is None else (value, key.end)

        return session

    def window(key: Windowed[Any]) -> tuple[Any, int] | None:
        row: tuple[Any, int] | None = store.get(key.key, key.start)
        return row

    return window


def time_windows(node: plan.WindowAggregate, build: Build) -> Process:
    """Aggregates in tumbling, hopping and unlimited windows: the timestamp of a record determines its windows."""
    window = node.window
    assert isinstance(window, TimeWindow | UnlimitedWindow)
    update = _updater(node, build)
    emit = _emitter(node, build) if node.emit_on_close else None
    clock = StreamClock(
        node, build.context, window.idle, emit, has_unemitted(node, build) if emit is not None else None
    )
    if isinstance(window, TimeWindow) and window.advance == window.size and emit is None:
        stream = build.only_stream(node) if node.aggregation.kind == "count" else None
        if stream is not None:
            return clock.watch(_counted(node, build, stream, clock.cell))
        return clock.watch(_tumbling(node, build, update, clock.cell))
    time = clock.cell
    no_key, too_late = build.drop(node, "null key"), build.drop(node, "late")
    before_all = build.drop(node, "before the window")
    late = build.late(node)
    size, grace = (END_OF_TIME, 0) if isinstance(window, UnlimitedWindow) else (window.size, window.grace)
    starts = _starts(window)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            no_key(key, value, timestamp, headers)
            return
        now = time[0] = max(time[0], timestamp)
        open_from = now - grace - size
        taken = closed = False
        for start in starts(timestamp):
            if start > open_from:
                taken = True
                if update(key, value, start, timestamp, headers):
                    return
            else:
                closed = True
                too_late(key, value, timestamp, headers)
        if not taken:
            if not closed:
                before_all(key, value, timestamp, headers)
            elif late is not None:
                late(key, value, timestamp, headers)
        if emit is not None:
            emit(now, headers)

    return clock.watch(process)


def _tumbling(node: plan.WindowAggregate, build: Build, update: Update, time: list[Any]) -> Process:
    """Returns the process of tumbling windows, which are common: a record is in exactly one window."""
    window = node.window
    assert isinstance(window, TimeWindow)
    size, grace = window.size, window.grace
    no_key, too_late = build.drop(node, "null key"), build.drop(node, "late")
    late = build.late(node)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            no_key(key, value, timestamp, headers)
            return
        if timestamp > time[0]:
            time[0] = timestamp
        start = timestamp - timestamp % size
        if start > time[0] - grace - size:
            update(key, value, start, timestamp, headers)
        else:
            too_late(key, value, timestamp, headers)
            if late is not None:
                late(key, value, timestamp, headers)

    return process


def _counted(node: plan.WindowAggregate, build: Build, stream: Process, time: list[Any]) -> Process:
    """Returns the process of a count in tumbling windows with only `ToStream` below it: fewer calls per record."""
    window = node.window
    assert isinstance(window, TimeWindow)
    size, wait = window.size, window.grace + window.size
    last = END_OF_TIME - size
    no_key, too_late = build.drop(node, "null key"), build.drop(node, "late")
    store = build.context.store(node.store)
    get, put = store.get, store.put

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            no_key(key, value, timestamp, headers)
            return
        if timestamp > time[0]:
            time[0] = timestamp
        start = timestamp - timestamp % size
        if start <= time[0] - wait:
            too_late(key, value, timestamp, headers)
            return
        row = get(key, start)
        if row is None:
            count = 1
        else:
            count, before = row
            count += 1
            if before > timestamp:
                timestamp = before
        put(key, start, (count, timestamp))
        stream(_new(Windowed, (key, start, start + size if start <= last else END_OF_TIME)), count, timestamp, headers)

    return process


def count_tumbling(node: plan.WindowAggregate, build: Build) -> Bulk | None:
    """Counts many records at once in tumbling windows, if only `ToStream` is below the count."""
    import numpy as np  # noqa: PLC0415  (tests of a topology do not need it)

    window, store = node.window, build.context.store(node.store)
    below = None if build.only_stream(node) is None else build.bulk(node)
    if (
        below is None
        or not isinstance(window, TimeWindow)
        or window.advance != window.size
        or window.idle is not None
        or node.emit_on_close
        or node.aggregation.kind != "count"
        or not hasattr(store, "count_all")
        or (node.store.retention_ms or 0)
        < window.size + window.grace  # the store would expire windows that are not closed
        or window.size + window.grace > END_OF_TIME
    ):
        return None
    process, too_late = build.entry(node), build.drop(node, "late")
    size, wait = window.size, window.grace + window.size
    last = END_OF_TIME - size
    time = build.context.cell(node, "stream-time", -1)
    key_serde = node.store.key
    windowed = TimeWindowedSerde(key_serde, size)

    def take(chunk: Chunk) -> None:
        if store.time > time[0]:  # a processor has advanced it: the store may have expired windows that are not closed
            chunk.one_by_one(process)
            return
        times = np.array(chunk.timestamps, np.int64)
        starts = times - times % size
        edges = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(times)]
        if len(edges) > _FEW_RUNS + len(times) // _RUN_LENGTH or None in chunk.keys:
            chunk.one_by_one(process)
            return
        latest = np.maximum(np.maximum.accumulate(times), time[0])
        late = starts <= latest - wait
        time[0] = int(latest[-1])
        if late.any():
            for number in np.flatnonzero(late).tolist():
                too_late(*chunk.record(number))
            chunk, starts = chunk.where(~late), starts[~late]
            if not len(chunk):
                return
            edges = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(starts)]
        keys, key_bytes = chunk.keys, chunk.serialized_keys(key_serde)
        counts: list[int] = []
        timestamps: list[int] = []
        windowed_keys: list[bytes] = []
        for begin, end in pairwise(edges):
            start = int(starts[begin])
            run = key_bytes[begin:end]
            run_counts, run_timestamps = store.count_all(keys[begin:end], start, chunk.timestamps[begin:end], run)
            counts += run_counts
            timestamps += run_timestamps
            suffix = window_key(b"", start)
            windowed_keys += [key + suffix for key in run]  # type: ignore[operator]  # no key is None

        def make() -> list[Windowed[Any]]:
            rows = zip(keys, starts.tolist(), strict=True)
            return [_new(Windowed, (key, start, start + size if start <= last else END_OF_TIME)) for key, start in rows]

        below.take(chunk.with_aggregates(counts, timestamps).with_keys(make, KeyBytes(windowed, windowed_keys)))

    return Bulk(take, calls=below.calls)


def _starts(window: TimeWindow | UnlimitedWindow) -> Callable[[int], Any]:
    """Returns the function that computes the starts of a timestamp's windows, in ascending order."""
    if isinstance(window, UnlimitedWindow):
        only = (window.start,)
        return lambda timestamp: only if timestamp >= only[0] else ()
    size, advance = window.size, window.advance

    def starts(timestamp: int) -> range:
        return range(max(0, timestamp - size + advance) // advance * advance, timestamp + 1, advance)

    return starts


def _updater(node: plan.WindowAggregate, build: Build) -> Update:
    """Returns the function that aggregates a record into one window; see `Update`."""
    store = build.context.store(node.store)
    get, put = store.get, store.put
    forward = None if node.emit_on_close else build.forward(node)
    size = node.store.window_size_ms or 0
    last = END_OF_TIME - size
    fail = build.failure(node, node.aggregation.user_function)
    steps = compile_aggregation(node.aggregation)
    first, following = steps.begin, steps.add
    fresh = needs_fresh_copy(node, build)
    kind, check = value_check(node.store)

    def update(key: Any, value: Any, start: int, timestamp: int, headers: Headers) -> bool:
        row = get(key, start)
        try:
            if row is None:
                old = None
                new = first(key, value)
            else:
                old, before = row
                new = following(key, value, get(key, start)[0] if fresh else old)
                if before > timestamp:
                    timestamp = before
            if type(new) is not kind and new is not None:
                check(new)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return True
        put(key, start, None if new is None else (new, timestamp))
        if forward is not None:
            windowed = _new(Windowed, (key, start, start + size if start <= last else END_OF_TIME))
            forward(windowed, new, old, timestamp, headers, True)
        return False

    def count(key: Any, _value: Any, start: int, timestamp: int, headers: Headers) -> bool:
        row = get(key, start)
        if row is None:
            old, new = None, 1
        else:
            old, before = row
            new = old + 1
            if before > timestamp:
                timestamp = before
        put(key, start, (new, timestamp))
        if forward is not None:
            windowed = _new(Windowed, (key, start, start + size if start <= last else END_OF_TIME))
            forward(windowed, new, old, timestamp, headers, True)
        return False

    return count if node.aggregation.kind == "count" else update


def _emitter(node: plan.WindowAggregate, build: Build) -> Callable[[int, Headers], None]:
    """Returns the function that emits the windows that have closed, each once."""
    assert isinstance(node.window, TimeWindow)
    wait = node.window.grace + node.window.size
    return close_windows(node, build, wait, node.window.size)


def has_unemitted(node: plan.WindowAggregate, build: Build) -> Callable[[], bool]:
    """Returns the function that reports whether the store may have windows that were not emitted.

    It compares times and does not search the store, which could be expensive. A false positive only advances an idle
    stream clock with nothing to emit.
    """
    store = build.context.store(node.store)
    emitted = build.context.cell(node, "emitted", -1)
    return lambda: store.time > emitted[0]


def close_windows(node: plan.WindowAggregate, build: Build, wait: int, length: int) -> Callable[[int, Headers], None]:
    """Returns the function that emits the windows which started ``wait`` before stream time, by start and key."""
    store = build.context.store(node.store)
    forward = build.forward(node)
    emitted = build.context.cell(node, "emitted", -1)
    store.release(emitted[0])

    def emit(now: int, headers: Headers) -> None:
        bound = now - wait
        if bound <= emitted[0]:
            return
        closed = store.rows_between(emitted[0], bound)
        emitted[0] = bound
        for key, start, (value, timestamp) in closed:
            forward(_new(Windowed, (key, start, later(start, length))), value, None, timestamp, headers, True)
        store.release(bound)

    return emit
