"""Stateless operators of streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from millstream.core.durations import END_OF_TIME
from millstream.core.records import Headers
from millstream.engine.chunks import Bulk, Chunk, results
from millstream.engine.compile import Build, Process, in_bulk, operator
from millstream.engine.errors import FAILURES
from millstream.errors import ProcessingError
from millstream.plan import stateless as plan
from millstream.plan.functions import Function
from millstream.plan.node import Node


@operator(plan.Filter)
def filter_(node: plan.Filter, build: Build) -> Process:  # noqa: C901  (one closure for each kind of function)
    """Forwards the records for which the predicate holds."""
    forward, fail = build.forward(node), build.failure(node, node.predicate)
    holds = _callable(node.predicate)
    if node.negate:
        holds = _negated(holds)

    if node.predicate.on_whole_record:

        def process_whole(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                if not holds(key, value, timestamp, headers):
                    return
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return process_whole

    if node.predicate.takes_key:

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                if not holds(key, value):
                    return
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return process_with_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            if not holds(value):
                return
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, value, timestamp, headers)

    return process


def _negated(holds: Callable[..., Any]) -> Callable[..., bool]:
    return lambda *arguments: not holds(*arguments)


@in_bulk(plan.Filter)
def filter_all(node: plan.Filter, build: Build) -> Bulk | None:
    """Forwards the records for which the predicate holds."""
    holds, expected = _callable(node.predicate), not node.negate

    def select(chunk: Chunk, results: list[Any]) -> Chunk:
        selected = results if expected else [not result for result in results]
        return chunk if all(selected) else chunk.where(selected)

    # The truth of an object can be computed by code of the user, which may fail; that of a pure result cannot.
    call = holds if node.predicate.pure else lambda *arguments: bool(holds(*arguments))
    return _call_for_chunk(node, build, node.predicate, call, select)


def _call_for_chunk(
    node: Node,
    build: Build,
    function: Function,
    call: Callable[..., Any],
    use: Callable[[Chunk, list[Any]], Chunk],
) -> Bulk | None:
    """Returns the bulk form of an operator that calls a function for all records and forwards the results.

    None if the difference to single records could be observed: a custom error handler may stop the application at any
    record, and the function must not be called for the records after it. Functions that only compute a result can be
    called in any order, so a chain may have several of them.
    """
    below = build.bulk(node)
    handler = build.context.config["processing.exception.handler"]
    if below is None or handler not in ("fail", "continue"):
        return None
    if not function.pure and (below.calls or not below.copies):
        return None
    fail, columns, for_all = build.failure(node, function), _columns(function), function.for_all

    def called(chunk: Chunk) -> tuple[Chunk, list[Any]]:
        if for_all is not None:
            with suppress(Exception):  # one by one, each error is handled with its record
                return chunk, for_all(*columns(chunk))
        return results(call, columns(chunk), chunk, fail, goes_on=handler == "continue")

    def take(chunk: Chunk) -> None:
        forwarded = use(*called(chunk))
        if len(forwarded):
            below.take(forwarded)

    return Bulk(take, calls=below.calls or not function.pure, copies=below.copies or not function.pure)


def _callable(function: Function) -> Callable[..., Any]:
    """Returns the function; it takes the parts of a record that it uses: all of them, key and value, or the value."""
    return function.on_record() if function.on_whole_record else function.bare()


def _columns(function: Function) -> Callable[[Chunk], tuple[Any, ...]]:
    """Returns the function that selects the columns which a user function takes."""
    if function.on_whole_record:
        return lambda chunk: (chunk.keys, chunk.values, chunk.timestamps, chunk.headers or [()] * len(chunk))
    if function.takes_key:
        return lambda chunk: (chunk.keys, chunk.values)
    return lambda chunk: (chunk.values,)


@operator(plan.MapValues)
def map_values(node: plan.MapValues, build: Build) -> Process:
    """Replaces the value of each record."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = _callable(node.function)

    if node.function.on_whole_record:

        def process_whole(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = function(key, value, timestamp, headers)
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, result, timestamp, headers)

        return process_whole

    if node.function.takes_key:

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = function(key, value)
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, result, timestamp, headers)

        return process_with_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            result = function(value)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, result, timestamp, headers)

    return process


@in_bulk(plan.MapValues)
def map_all_values(node: plan.MapValues, build: Build) -> Bulk | None:
    """Replaces the value of each record."""
    return _call_for_chunk(node, build, node.function, _callable(node.function), Chunk.with_values)


@operator(plan.WithTimestamp)
def with_timestamp(node: plan.WithTimestamp, build: Build) -> Process:
    """Replaces the timestamp of each record."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            time = _checked_timestamp(function(key, value, timestamp, headers))
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, value, time, headers)

    return process


@in_bulk(plan.WithTimestamp)
def with_all_timestamps(node: plan.WithTimestamp, build: Build) -> Bulk | None:
    """Replaces the timestamp of each record."""
    function = _callable(node.function)
    return _call_for_chunk(
        node, build, node.function, lambda *part: _checked_timestamp(function(*part)), Chunk.with_timestamps
    )


def _checked_timestamp(timestamp: Any) -> int:
    if type(timestamp) is int and 0 <= timestamp <= END_OF_TIME:
        return timestamp
    raise ProcessingError(
        f"the function returned {timestamp!r} ({type(timestamp).__name__}), which is not a timestamp",
        hint="a timestamp is an int from 0 to 2**63 - 1, in milliseconds since the epoch",
    )


@operator(plan.SelectKey)
def select_key(node: plan.SelectKey, build: Build) -> Process:
    """Replaces the key of each record."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            new_key = function(key, value, timestamp, headers)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(new_key, value, timestamp, headers)

    return process


@in_bulk(plan.SelectKey)
def select_all_keys(node: plan.SelectKey, build: Build) -> Bulk | None:
    """Replaces the key of each record."""
    return _call_for_chunk(node, build, node.function, _callable(node.function), Chunk.rekeyed)


@operator(plan.Map)
def map_(node: plan.Map, build: Build) -> Process:
    """Replaces the key and the value of each record."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        pair = None
        try:
            pair = function(key, value, timestamp, headers)
            new_key, new_value = pair
        except FAILURES as error:
            fail(_explain_result(error, pair), key, value, timestamp, headers)
            return
        forward(new_key, new_value, timestamp, headers)

    return process


def _explain_result(error: BaseException, result: Any) -> BaseException:
    """Returns the error; a clearer one if the function returned something else than a pair."""
    if isinstance(error, TypeError | ValueError) and result is not None and not isinstance(result, tuple | list):
        return ProcessingError(
            f"the function returned {result!r} ({type(result).__name__})", hint="it must return a pair: (key, value)"
        )
    return error


@operator(plan.FlatMap)
def flat_map(node: plan.FlatMap, build: Build) -> Process:
    """Replaces each record by any number of records."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        pair = None
        pairs = []
        try:
            for pair in function(key, value, timestamp, headers):
                new_key, new_value = pair
                pairs.append((new_key, new_value))
        except FAILURES as error:
            fail(_explain_result(error, pair), key, value, timestamp, headers)
            return
        for new_key, new_value in pairs:
            forward(new_key, new_value, timestamp, headers)

    return process


@operator(plan.FlatMapValues)
def flat_map_values(node: plan.FlatMapValues, build: Build) -> Process:
    """Replaces each record by any number of records of the same key."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            values = list(function(key, value, timestamp, headers))
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        for new_value in values:
            forward(key, new_value, timestamp, headers)

    return process


@in_bulk(plan.FlatMapValues)
def flat_map_all_values(node: plan.FlatMapValues, build: Build) -> Bulk | None:
    """Replaces each record by any number of records of the same key."""
    function = _callable(node.function)

    def expand(chunk: Chunk, results: list[Any]) -> Chunk:
        counts = [len(values) for values in results]
        rows = [row for row, count in enumerate(counts) for _ in range(count)]
        expanded = chunk if all(count == 1 for count in counts) else chunk.at(rows)
        return expanded.with_values([value for values in results for value in values])

    return _call_for_chunk(node, build, node.function, lambda *part: list(function(*part)), expand)


@operator(plan.Peek)
@operator(plan.Foreach)
def peek(node: plan.Peek | plan.Foreach, build: Build) -> Process:
    """Calls a function for each record, and forwards the record."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            function(key, value, timestamp, headers)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, value, timestamp, headers)

    return process


@operator(plan.Branch)
def branch(node: plan.Branch, build: Build) -> Process:
    """Routes each record to the first output whose predicate holds, or to the default output."""
    outputs = build.branches(node, len(node.predicates) + node.default)
    default = outputs[-1] if node.default else build.drop(node, "no branch")
    branches = [(p.on_record(), build.failure(node, p), o) for p, o in zip(node.predicates, outputs, strict=False)]

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for holds, fail, output in branches:
            try:
                matches = bool(holds(key, value, timestamp, headers))
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            if matches:
                output(key, value, timestamp, headers)
                return
        default(key, value, timestamp, headers)

    return process


@operator(plan.BranchOutput)
@operator(plan.Merge)
@operator(plan.Late)
def forward_unchanged(node: Node, build: Build) -> Process:
    """Forwards records unchanged."""
    return build.forward(node)
