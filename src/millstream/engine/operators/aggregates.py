"""Aggregates of streams and tables without windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from millstream.core.records import Headers
from millstream.engine.aggregation import compile_aggregation
from millstream.engine.chunks import Bulk, Chunk
from millstream.engine.compile import Build, Process, getter, in_bulk, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import stored_rows, table_store, value_check
from millstream.errors import ProcessingError
from millstream.plan import aggregates as plan


def needs_fresh_copy(node: plan.Aggregate | plan.WindowAggregate | plan.TableAggregate, build: Build) -> bool:
    """Whether a function that changes the aggregate in place would change an old value that is forwarded."""
    return not node.store.value.immutable and node in build.facts.sends_old


def _fresh_copy(get: Getter, key: Any) -> Any:
    """Returns another copy of an aggregate: the store deserializes it again."""
    row = get(key)
    return None if row is None else row[0]


@operator(plan.Aggregate)
def aggregate(node: plan.Aggregate, build: Build) -> Process:
    """Maintains one aggregate for each key."""
    store = build.context.store(node.store)
    if node.aggregation.kind == "count" and store.spec.kind == "key-value":
        return _count(node, build, store)
    forward, drop = build.forward(node), _drop_nulls(node, build)
    fail = build.failure(node, node.aggregation.user_function)
    expired = build.drop(node, "older than the history")
    steps = compile_aggregation(node.aggregation)
    first, following = steps.begin, steps.add
    rows = table_store(store)
    get, put = rows.get, rows.put
    fresh = needs_fresh_copy(node, build)
    kind, check = value_check(node.store)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop(key, value, timestamp, headers)
            return
        row = get(key)
        try:
            if row is None:
                old = None
                new = first(key, value)
            else:
                old, before = row
                new = following(key, value, _fresh_copy(get, key) if fresh else old)
                if before > timestamp:
                    timestamp = before
            if type(new) is not kind and new is not None:
                check(new)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        latest = put(key, new, timestamp)
        if latest is None:
            expired(key, new, timestamp, headers)
        else:
            forward(key, new, old, timestamp, headers, latest)

    return process


def _count(node: plan.Aggregate, build: Build, store: Any) -> Process:
    """Returns the process of a count, which is common; a shorter one if only `ToStream` is below it."""
    forward, drop = build.forward(node), _drop_nulls(node, build)
    get, put = store.get, store.put
    stream = build.only_stream(node)
    if stream is not None:

        def process_to_stream(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key, value, timestamp, headers)
                return
            row = get(key)
            if row is None:
                count = 1
            else:
                count, before = row
                count += 1
                if before > timestamp:
                    timestamp = before
            put(key, (count, timestamp))
            stream(key, count, timestamp, headers)

        return process_to_stream

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop(key, value, timestamp, headers)
            return
        row = get(key)
        if row is None:
            put(key, (1, timestamp))
            forward(key, 1, None, timestamp, headers, True)
            return
        old, before = row
        if before > timestamp:
            timestamp = before
        put(key, (old + 1, timestamp))
        forward(key, old + 1, old, timestamp, headers, True)

    return process


@in_bulk(plan.Aggregate)
def aggregate_all(node: plan.Aggregate, build: Build) -> Bulk | None:
    """Aggregates many records at once, if only `ToStream` is below the aggregate."""
    below = None if build.only_stream(node) is None else build.bulk(node)
    if below is None:
        return None
    store = build.context.store(node.store)
    if node.aggregation.kind == "count":
        return _count_all(node, build, store, below) if hasattr(store, "count_all") else None
    # Rows that are serialized when they are put can fail there; older versions of rows are not put.
    if store.spec.kind != "key-value" or not (store.spec.key.hashable and store.spec.value.immutable):
        return None
    handler = build.context.config["processing.exception.handler"]
    pure = all(function.pure for function in node.aggregation.all_functions)
    if handler not in ("fail", "continue") or (below.calls and not pure):
        return None
    update = _updates(node, build, store, goes_on=handler == "continue")

    def take(chunk: Chunk) -> None:
        updated = update(chunk)
        if len(updated):
            below.take(updated)

    return Bulk(take, calls=below.calls or not pure, copies=False)


def _updates(node: plan.Aggregate, build: Build, store: Any, *, goes_on: bool) -> Callable[[Chunk], Chunk]:
    """Returns the function that adds the records of a chunk, and returns them with their aggregates.

    It stops at the first error unless ``goes_on`` is set.
    """
    fail, drop = build.failure(node, node.aggregation.user_function), _drop_nulls(node, build)
    steps = compile_aggregation(node.aggregation)
    first, following = steps.begin, steps.add
    get, put = store.get, store.put
    kind, check = value_check(node.store)

    def update(chunk: Chunk) -> Chunk:
        values: list[Any] = []
        times: list[int] = []
        left_out: list[int] = []
        for key, value, time in zip(chunk.keys, chunk.values, chunk.timestamps, strict=True):
            if key is None or value is None:
                drop(key, value, time, ())
                left_out.append(len(values))
                values.append(None)
                times.append(time)
                continue
            row, latest = get(key), time
            try:
                if row is None:
                    new = first(key, value)
                else:
                    old, before = row
                    new = following(key, value, old)
                    if before > time:
                        latest = before
                if type(new) is not kind and new is not None:
                    check(new)
            except FAILURES as error:
                chunk.fail(len(values), fail, error)
                if not goes_on:
                    break
                left_out.append(len(values))
                new = None
            else:
                put(key, None if new is None else (new, latest))
            values.append(new)
            times.append(latest)
        if not left_out and len(values) == len(chunk):
            return chunk.with_aggregates(values, times)
        selected = [True] * len(values)
        for index in left_out:
            selected[index] = False
        kept = list(compress(values, selected)), list(compress(times, selected))
        return chunk.where(selected).with_aggregates(*kept)

    return update


def _count_all(node: plan.Aggregate, build: Build, store: Any, below: Bulk) -> Bulk:
    process = build.entry(node)

    def take(chunk: Chunk) -> None:
        if None in chunk.keys or any(value is None for value in chunk.values):
            chunk.one_by_one(process)
            return
        below.take(chunk.with_aggregates(*store.count_all(chunk.keys, chunk.timestamps)))

    return Bulk(take, calls=below.calls)


def _drop_nulls(node: plan.Aggregate, build: Build) -> Process:
    no_key, no_value = build.drop(node, "null key"), build.drop(node, "null value")

    def drop(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        (no_key if key is None else no_value)(key, value, timestamp, headers)

    return drop


@operator(plan.TableGroupBy)
def table_group_by(node: plan.TableGroupBy, build: Build) -> Process:
    """Converts a change of a row into changes of its old and its new group; into one change if both are the same."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.full()
    skip_older = build.versioned(node.parent)
    key_bytes = node.key.serialize
    by_bytes = not node.key.hashable

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if skip_older and not latest:
            return
        if key is None:
            fail(ProcessingError("a row without a key cannot be grouped"), key, new, timestamp, headers)
            return
        try:
            new_group, new_value = (None, None) if new is None else function(key, new)
            old_group, old_value = (None, None) if old is None else function(key, old)
            had = old_group is not None and old_value is not None
            has = new_group is not None and new_value is not None
            same = (
                had and has and (key_bytes(new_group) == key_bytes(old_group) if by_bytes else new_group == old_group)
            )
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        if same:
            forward(new_group, new_value, old_value, timestamp, headers, latest)
            return
        if had:
            forward(old_group, None, old_value, timestamp, headers, latest)
        if has:
            forward(new_group, new_value, None, timestamp, headers, latest)

    return process


@operator(plan.TableAggregate)
def table_aggregate(node: plan.TableAggregate, build: Build) -> Process:
    """Subtracts the old value of a row from its group and adds the new one."""
    forward, fail = build.forward(node), build.failure(node, node.aggregation.user_function)
    rows = table_store(build.context.store(node.store))
    expired = build.drop(node, "older than the history")
    steps = compile_aggregation(node.aggregation)
    add, subtract, begin = steps.add, steps.subtract, steps.begin
    fresh = needs_fresh_copy(node, build)
    kind, check = value_check(node.store)

    def process(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        new_value, old_value = change
        row = rows.get(key)
        old, before = (None, -1) if row is None else row
        result = _fresh_copy(rows.get, key) if fresh else old
        try:
            if old_value is not None and old is not None:
                result = subtract(key, old_value, result)
            if new_value is not None:
                result = begin(key, new_value) if result is None else add(key, new_value, result)
            if type(result) is not kind and result is not None:
                check(result)
        except FAILURES as error:
            fail(error, key, new_value, timestamp, headers)
            return
        if before > timestamp:
            timestamp = before
        latest = rows.put(key, result, timestamp)
        if latest is None:
            expired(key, result, timestamp, headers)
        else:
            forward(key, result, old, timestamp, headers, latest)

    return process


@operator(plan.Cogroup)
def cogroup(node: plan.Cogroup, build: Build) -> Process:
    """Forwards the changes of all aggregates that share its rows."""
    return build.forward(node)


getter(plan.Aggregate)(stored_rows)
getter(plan.TableAggregate)(stored_rows)


@getter(plan.Cogroup)
def cogroup_rows(node: plan.Cogroup, build: Build) -> Getter:
    """Looks up rows in the shared store."""
    return build.getter(node.inputs[0])
