"""Joins of two tables by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import table_store
from millstream.plan.joins import TableTableJoin

Joiner = Callable[[Any, Any, Any], Any]


@operator(TableTableJoin)
def table_table_join(node: TableTableJoin, build: Build) -> tuple[Process, Process]:
    """Joins a change on either side with the row that the other side has at that moment."""
    joiner = node.joiner.full()

    def reversed_joiner(key: Any, own: Any, other: Any) -> Any:
        return joiner(key, other, own)

    left_wanted, right_wanted = node.how == "inner", node.how in {"inner", "left"}
    return (
        _side(node, build, node.left, node.right, joiner, needs_other=left_wanted, needs_own=node.how != "outer"),
        _side(node, build, node.right, node.left, reversed_joiner, needs_other=right_wanted, needs_own=left_wanted),
    )


def _side(
    node: TableTableJoin, build: Build, own: Any, other: Any, joiner: Joiner, *, needs_other: bool, needs_own: bool
) -> Process:
    """One side of the join, which may need a row on the other side, or on its own, to have a result."""
    forward, fail = _kept(node, build), build.failure(node, node.joiner)
    get = build.getter(other)
    tells_old = node in build.facts.sends_old
    skip_older = build.versioned(own)
    drop, older = build.drop(node, "null key"), build.drop(node, "older version")

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if key is None:
            drop(key, new, timestamp, headers)
            return
        if skip_older and not latest:
            older(key, new, timestamp, headers)
            return
        try:
            row = get(key)
            if row is None:
                if needs_other or (new is None and old is None):
                    return
                match, time = None, timestamp
            else:
                match, time = row
            result = former = None
            if new is not None or (match is not None and not needs_own):
                result = joiner(key, new, match)
            if tells_old and (old is not None or (match is not None and not needs_own)):
                former = joiner(key, old, match)
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        forward(key, result, former, max(timestamp, time), headers, latest)

    return process


def _kept(node: TableTableJoin, build: Build) -> Process:
    """Passes results on, and keeps them if the join has a store."""
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


@getter(TableTableJoin)
def joined_rows(node: TableTableJoin, build: Build) -> Getter:
    """Looks a joined row up, in the join's own store, or by joining what both sides have."""
    if node.store is not None:
        rows: Getter = build.context.store(node.store).get
        return rows
    left, right = build.getter(node.left), build.getter(node.right)
    joiner, how = node.joiner.full(), node.how

    def get(key: Any) -> tuple[Any, int] | None:
        ours, theirs = left(key), right(key)
        if (ours is None and (how != "outer" or theirs is None)) or (theirs is None and how == "inner"):
            return None
        value = joiner(key, None if ours is None else ours[0], None if theirs is None else theirs[0])
        time = max(-1 if ours is None else ours[1], -1 if theirs is None else theirs[1])
        return None if value is None else (value, time)

    return get
