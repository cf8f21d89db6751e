"""Operators on the changes of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers
from millstream.engine.chunks import Bulk
from millstream.engine.compile import Build, Process, getter, in_bulk, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import store_changes, stored_rows, value_check
from millstream.plan import tables as plan


@operator(plan.TableFilter)
def table_filter(node: plan.TableFilter, build: Build) -> Process:
    """Forwards a row for which the predicate holds; other rows are forwarded as deleted."""
    forward, fail = store_changes(node, build), build.failure(node, node.predicate)
    holds, negate = node.predicate.full(), node.negate
    sends_old = node in build.facts.sends_old
    old_of = _old_value(node, build)
    silent = sends_old and not build.versioned(node.parent)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        try:
            result = new if new is not None and (not holds(key, new)) is negate else None
            former = None
            if sends_old:
                if old_of is not None:
                    former = old_of(key)
                elif old is not None and (not holds(key, old)) is negate:
                    former = old
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        if silent and result is None and former is None:
            return
        forward(key, result, former, timestamp, headers, latest)

    return process


@getter(plan.TableFilter)
def filtered_rows(node: plan.TableFilter, build: Build) -> Getter:
    """Looks up a row in the filter's store, or in the table above it."""
    if node.store is not None:
        return stored_rows(node, build)
    above = build.getter(node.parent)
    holds, negate = node.predicate.full(), node.negate

    def get(key: Any) -> tuple[Any, int] | None:
        row = above(key)
        return row if row is not None and (not holds(key, row[0])) is negate else None

    return get


@operator(plan.TableMapValues)
def table_map_values(node: plan.TableMapValues, build: Build) -> Process:
    """Replaces the value of a row; a deletion remains a deletion."""
    function = node.function.full()
    return _mapped(node, build, lambda key, value: None if value is None else function(key, value))


@operator(plan.TableTransformValues)
def table_transform_values(node: plan.TableTransformValues, build: Build) -> Process:
    """Replaces the value of a row, also of a deleted one."""
    return _mapped(node, build, node.function.full())


def _mapped(
    node: plan.TableMapValues | plan.TableTransformValues, build: Build, function: Callable[[Any, Any], Any]
) -> Process:
    forward, fail = store_changes(node, build), build.failure(node, node.function)
    sends_old = node in build.facts.sends_old
    old_of = _old_value(node, build)
    kind, check = (None, _anything) if node.store is None else value_check(node.store)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        try:
            result = function(key, new)
            if type(result) is not kind and result is not None:
                check(result)
            former = None
            if sends_old:
                former = old_of(key) if old_of is not None else function(key, old)
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        forward(key, result, former, timestamp, headers, latest)

    return process


@getter(plan.TableMapValues)
@getter(plan.TableTransformValues)
def mapped_rows(node: plan.TableMapValues | plan.TableTransformValues, build: Build) -> Getter:
    """Looks up a row in the operator's store, or computes it from the table above. An absent row remains absent."""
    if node.store is not None:
        return stored_rows(node, build)
    above = build.getter(node.parent)
    function = node.function.full()

    def get(key: Any) -> tuple[Any, int] | None:
        row = above(key)
        if row is None:
            return None
        value = function(key, row[0])
        return None if value is None else (value, row[1])

    return get


@operator(plan.ToStream)
def to_stream(node: plan.ToStream, build: Build) -> Process:
    """Forwards the new value of each change as a record."""
    forward = build.forward(node)

    def process(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        forward(key, new, timestamp, headers)

    return process


@in_bulk(plan.ToStream)
def all_to_stream(node: plan.ToStream, build: Build) -> Bulk | None:
    """Forwards the new values as records."""
    return build.bulk(node)


def _anything(_value: Any) -> None:
    """Accepts every value: without a store, none is serialized here."""


def _old_value(
    node: plan.TableFilter | plan.TableMapValues | plan.TableTransformValues, build: Build
) -> Callable[[Any], Any] | None:
    """Returns the look-up of old values in the operator's store; None without a store."""
    if node.store is None:
        return None
    get = build.context.store(node.store).get

    def old(key: Any) -> Any:
        row = get(key)
        return None if row is None else row[0]

    return old
