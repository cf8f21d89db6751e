"""Operators on the changes of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers
from millstream.engine.chunks import Bulk
from millstream.engine.compile import Build, Process, getter, in_bulk, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import table_store, value_check
from millstream.plan import tables as plan


@operator(plan.TableFilter)
def table_filter(node: plan.TableFilter, build: Build) -> Process:
    """Passes a row that fits; a row that does not is passed as deleted."""
    forward, fail = _kept(node, build), build.failure(node, node.predicate)
    holds, negate = node.predicate.full(), node.negate
    tells_old = node in build.facts.sends_old
    old_of = _old_value(node, build)
    silent = tells_old and not build.versioned(node.parent)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        try:
            result = new if new is not None and (not holds(key, new)) is negate else None
            former = None
            if tells_old:
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
    """Looks a row up, in the filter's own store or above it."""
    if node.store is not None:
        return _stored(node, build)
    above = build.getter(node.parent)
    holds, negate = node.predicate.full(), node.negate

    def get(key: Any) -> tuple[Any, int] | None:
        row = above(key)
        return row if row is not None and (not holds(key, row[0])) is negate else None

    return get


@operator(plan.TableMapValues)
def table_map_values(node: plan.TableMapValues, build: Build) -> Process:
    """Gives a row a new value; a deletion stays one."""
    function = node.function.full()
    return _mapped(node, build, lambda key, value: None if value is None else function(key, value))


@operator(plan.TableTransformValues)
def table_transform_values(node: plan.TableTransformValues, build: Build) -> Process:
    """Gives a row a new value, a deleted one too."""
    return _mapped(node, build, node.function.full())


def _mapped(
    node: plan.TableMapValues | plan.TableTransformValues, build: Build, function: Callable[[Any, Any], Any]
) -> Process:
    forward, fail = _kept(node, build), build.failure(node, node.function)
    tells_old = node in build.facts.sends_old
    old_of = _old_value(node, build)
    kind, check = (None, _anything) if node.store is None else value_check(node.store)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        try:
            result = function(key, new)
            if type(result) is not kind and result is not None:
                check(result)
            former = None
            if tells_old:
                former = old_of(key) if old_of is not None else function(key, old)
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        forward(key, result, former, timestamp, headers, latest)

    return process


@getter(plan.TableMapValues)
@getter(plan.TableTransformValues)
def mapped_rows(node: plan.TableMapValues | plan.TableTransformValues, build: Build) -> Getter:
    """Looks a row up, in the operator's own store or above it; a row that is not there stays so."""
    if node.store is not None:
        return _stored(node, build)
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
    """Passes on the new value of each change as a record."""
    forward = build.forward(node)

    def process(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        forward(key, new, timestamp, headers)

    return process


@in_bulk(plan.ToStream)
def all_to_stream(node: plan.ToStream, build: Build) -> Bulk | None:
    """Passes on the new values as records."""
    return build.bulk(node)


def _kept(node: plan.TableFilter | plan.TableMapValues | plan.TableTransformValues, build: Build) -> Process:
    """Passes changes on, and keeps them if the operator has a store."""
    forward = build.forward(node)
    if node.store is None:
        return forward
    put = table_store(build.context.store(node.store)).put
    expired = build.drop(node, "older than the history")

    def keep(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        latest = put(key, new, timestamp)
        if latest is None:
            expired(key, new, timestamp, headers)
        else:
            forward(key, new, old, timestamp, headers, latest)

    return keep


def _anything(_value: Any) -> None:
    """Without a store, anything goes."""


def _old_value(
    node: plan.TableFilter | plan.TableMapValues | plan.TableTransformValues, build: Build
) -> Callable[[Any], Any] | None:
    """Where the old value of a row comes from: from the operator's own store if it has one."""
    if node.store is None:
        return None
    get = build.context.store(node.store).get

    def old(key: Any) -> Any:
        row = get(key)
        return None if row is None else row[0]

    return old


def _stored(node: plan.TableFilter | plan.TableMapValues | plan.TableTransformValues, build: Build) -> Getter:
    assert node.store is not None
    rows: Getter = build.context.store(node.store).get
    return rows
