"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, operator
from millstream.engine.errors import FAILURES
from millstream.engine.stream_clock import StreamClock
from millstream.plan.joins import StreamGlobalJoin, StreamStreamJoin, StreamTableJoin
from millstream.plan.walk import keeps_versions

Joiner = Callable[[Any, Any, Any], Any]


@operator(StreamStreamJoin)
def stream_stream_join(node: StreamStreamJoin, build: Build) -> Process | tuple[Process, Process]:
    """Joins each record with the records of the other stream in its join window."""
    join = StreamJoin(node, build)
    if node.single_store:
        return join.clock.watch(join.self_join)
    return join.clock.watch(join.side(left=True)), join.clock.watch(join.side(left=False))


class Unmatched:
    """The records of an outer side without a match so far, by time, key and arrival."""

    def __init__(self, buffer: Any, key_bytes: Callable[[Any], bytes | None], arrivals: list[Any], wait: int) -> None:
        self.wait = wait
        self._buffer = buffer
        self._key_bytes = key_bytes
        self._arrivals = arrivals
        self._orders: dict[tuple[int, bytes], list[bytes]] = {}
        for time, order, _item in buffer.all():
            self._orders.setdefault((time, order[:-8]), []).append(order)

    def add(self, key: Any, value: Any, timestamp: int) -> None:
        """Adds a record."""
        key_bytes = self._key_bytes(key) or b""
        self._arrivals[0] += 1
        order = key_bytes + self._arrivals[0].to_bytes(8, "big")
        self._buffer.put(timestamp, order, (key, value))
        self._orders.setdefault((timestamp, key_bytes), []).append(order)

    def matched(self, key: Any, timestamp: int) -> None:
        """Removes all records of a key and timestamp."""
        for order in self._orders.pop((timestamp, self._key_bytes(key) or b""), ()):
            self._buffer.remove(timestamp, order)

    def __len__(self) -> int:
        return len(self._buffer)

    def closed(self, now: int) -> list[tuple[int, bytes, Any]]:
        """Removes and returns the records whose window has closed, in order."""
        records = []
        while (first := self._buffer.first()) is not None and first[0] + self.wait < now:
            time, order, item = self._buffer.pop_first()
            self._orders.pop((time, order[:-8]), None)
            records.append((time, order, item))
        return records


class StreamJoin:
    """A join of two streams. Both sides share one stream clock."""

    def __init__(self, node: StreamStreamJoin, build: Build) -> None:
        context, window = build.context, node.window
        self.node = node
        self.window = window
        self.left_store = context.store(node.left_store)
        self.right_store = self.left_store if node.single_store else context.store(node.right_store)
        arrivals, key_bytes = context.cell(node, "arrivals", 0), node.left_store.key.serialize
        self.left_unmatched = self.right_unmatched = None
        if node.left_unmatched is not None:
            wait = window.after + window.grace
            self.left_unmatched = Unmatched(context.store(node.left_unmatched), key_bytes, arrivals, wait)
        if node.right_unmatched is not None:
            wait = window.before + window.grace
            self.right_unmatched = Unmatched(context.store(node.right_unmatched), key_bytes, arrivals, wait)
        self.clock = StreamClock(node, context, window.idle, self.release, self._has_unmatched)
        self.time = self.clock.cell
        self.forward = build.forward(node)
        self.late = build.late(node)
        self.joiner = node.joiner.full()
        self.fail = build.failure(node, node.joiner)
        self.no_key, self.no_value = build.drop(node, "null key"), build.drop(node, "null value")

    def side(self, *, left: bool) -> Process:  # noqa: C901  (the steps of one record, in order)
        """Returns the process of one side."""
        window, joiner = self.window, self.joiner
        if left:
            before, after, put, fetch = window.before, window.after, self.left_store.put, self.right_store.fetch
            own, other = self.left_unmatched, self.right_unmatched
            join = joiner
        else:
            before, after, put, fetch = window.after, window.before, self.right_store.put, self.left_store.fetch
            own, other = self.right_unmatched, self.left_unmatched

            def join(key: Any, value: Any, match: Any) -> Any:
                return joiner(key, match, value)

        outer = self.node.how == "outer" or (left and self.node.how == "left")
        releases = self.left_unmatched is not None
        time, forward, fail = self.time, self.forward, self.fail

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            now = time[0]
            if timestamp > now:
                now = time[0] = timestamp
            if key is None or value is None:
                self._process_null(key, value, timestamp, headers, join if outer else None)
                return
            if releases and timestamp == now:
                self.release(now, headers)
            until = timestamp + after
            matches = fetch(key, max(0, timestamp - before), max(0, until))
            for at, match in matches:
                if other is not None:
                    other.matched(key, at)
                try:
                    result = join(key, value, match)
                except FAILURES as error:
                    fail(error, key, value, timestamp, headers)
                    break
                forward(key, result, at if at > timestamp else timestamp, headers)
            if not matches:
                if self.late is not None and until + window.grace < now:
                    self.late(key, value, timestamp, headers)
                if outer and (own is None or max(0, until) < now):
                    self._emit_unmatched(key, value, timestamp, headers, join)
                elif outer and own is not None:
                    own.add(key, value, timestamp)
            put(key, timestamp, value)

        return process

    def self_join(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Joins a stream with itself: the record as left with earlier records, then as right, also with itself."""
        self.time[0] = max(self.time[0], timestamp)
        if key is None or value is None:
            self._process_null(key, value, timestamp, headers, None)
            return
        store, window = self.left_store, self.window
        as_left = store.fetch(key, max(0, timestamp - window.before), max(0, timestamp + window.after))
        store.put(key, timestamp, value)
        as_right = store.fetch(key, max(0, timestamp - window.after), max(0, timestamp + window.before))
        for pairs in ([(at, value, other) for at, other in as_left], [(at, other, value) for at, other in as_right]):
            for at, left, right in pairs:
                try:
                    result = self.joiner(key, left, right)
                except FAILURES as error:
                    self.fail(error, key, value, timestamp, headers)
                    break
                self.forward(key, result, max(timestamp, at), headers)

    def release(self, now: int, headers: Headers) -> None:
        """Emits the unmatched records whose windows have closed: by time, side (right first), key and arrival."""
        closed = [] if self.right_unmatched is None else [(t, 0, o, i) for t, o, i in self.right_unmatched.closed(now)]
        if self.left_unmatched is not None:
            closed += [(t, 1, o, i) for t, o, i in self.left_unmatched.closed(now)]
        closed.sort(key=lambda entry: entry[:3])
        for time, left, _order, (key, value) in closed:
            try:
                result = self.joiner(key, value, None) if left else self.joiner(key, None, value)
            except FAILURES as error:
                self.fail(error, key, value, time, headers)
                continue
            self.forward(key, result, time, headers)

    def _has_unmatched(self) -> bool:
        return any(len(side) > 0 for side in (self.left_unmatched, self.right_unmatched) if side is not None)

    def _process_null(self, key: Any, value: Any, timestamp: int, headers: Headers, join: Joiner | None) -> None:
        """Handles null keys and values. A record without a key has no match: an outer side emits it at once."""
        if key is None and value is not None and join is not None:
            self._emit_unmatched(key, value, timestamp, headers, join)
        else:
            (self.no_key if key is None else self.no_value)(key, value, timestamp, headers)

    def _emit_unmatched(self, key: Any, value: Any, timestamp: int, headers: Headers, join: Joiner) -> None:
        try:
            result = join(key, value, None)
        except FAILURES as error:
            self.fail(error, key, value, timestamp, headers)
            return
        self.forward(key, result, timestamp, headers)


@operator(StreamTableJoin)
def stream_table_join(node: StreamTableJoin, build: Build) -> Process:
    """Joins each record with the row of its key in a table."""
    versioned = keeps_versions(node.table)
    get = build.getter(node.table) if not versioned else as_of_getter(node.table, build)
    joined = _row_join(node, build, get, versioned=versioned)
    if node.grace is not None:
        return _buffered(node, build, joined)
    return joined


def _row_join(node: StreamTableJoin, build: Build, get: Callable[..., Any], *, versioned: bool) -> Process:
    forward, fail = build.forward(node), build.failure(node, node.joiner)
    no_key, no_value = build.drop(node, "null key"), build.drop(node, "null value")
    inner = node.how == "inner"
    function = node.joiner
    joiner, with_key = function.bare(), function.takes_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None or (key is None and inner):
            (no_key if key is None else no_value)(key, value, timestamp, headers)
            return
        try:
            if key is None:
                row = None
            else:
                row = get(key, timestamp) if versioned else get(key)
            if row is None:
                if inner:
                    return
                match = None
            else:
                match = row[0]
            result = joiner(key, value, match) if with_key else joiner(value, match)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, result, timestamp, headers)

    return process


def _buffered(node: StreamTableJoin, build: Build, joined: Process) -> Process:
    """Returns the process that buffers records for the grace period, so that the table can catch up."""
    assert node.buffer is not None
    assert node.grace is not None
    grace = node.grace
    buffer = build.context.store(node.buffer)
    time = build.context.cell(node, "stream-time", -1)
    arrivals = build.context.cell(node, "arrivals", 0)
    late = build.late(node)
    no_key, no_value = build.drop(node, "null key"), build.drop(node, "null value")
    key_bytes, inner = node.key.serialize, node.how == "inner"

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None or (key is None and inner):
            (no_key if key is None else no_value)(key, value, timestamp, headers)
            return
        now = time[0] = max(time[0], timestamp)
        if timestamp < now - grace or key is None:
            if late is not None and key is not None:
                late(key, value, timestamp, headers)
            joined(key, value, timestamp, headers)
        else:
            arrivals[0] += 1
            order = (key_bytes(key) or b"") + arrivals[0].to_bytes(8, "big")
            buffer.put(timestamp, order, (key, value, timestamp, headers))
        while (first := buffer.first()) is not None and first[0] <= now - grace:
            _time, _order, record = buffer.pop_first()
            joined(*record)

    return process


def as_of_getter(node: Any, build: Build) -> Callable[[Any, int], tuple[Any, int] | None]:
    """Returns the look-up of a versioned table's row as of a time, through the operators in between."""
    if node.store is not None:
        get: Callable[[Any, int], tuple[Any, int] | None] = build.context.store(node.store).get_as_of
        return get
    above = as_of_getter(node.parent, build)
    if hasattr(node, "predicate"):
        holds, negate = node.predicate.full(), node.negate

        def filtered(key: Any, time: int) -> tuple[Any, int] | None:
            row = above(key, time)
            return row if row is not None and (not holds(key, row[0])) is negate else None

        return filtered
    function = node.function.full()

    def mapped(key: Any, time: int) -> tuple[Any, int] | None:
        row = above(key, time)
        value = None if row is None else function(key, row[0])
        return None if row is None or value is None else (value, row[1])

    return mapped


@operator(StreamGlobalJoin)
def stream_global_join(node: StreamGlobalJoin, build: Build) -> Process:
    """Joins each record with the row of a global table whose key a function returns."""
    forward, fail = build.forward(node), build.failure(node, node.joiner)
    no_key, no_value = build.drop(node, "null key"), build.drop(node, "null value")
    get, select, joiner = build.getter(node.table), node.select_key.full(), node.joiner.full()
    inner = node.how == "inner"

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None:
            no_value(key, value, timestamp, headers)
            return
        try:
            row_key = select(key, value)
            if row_key is None and inner:
                no_key(key, value, timestamp, headers)
                return
            row = None if row_key is None else get(row_key)
            if row is None and inner:
                return
            result = joiner(key, value, None if row is None else row[0])
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, result, timestamp, headers)

    return process
