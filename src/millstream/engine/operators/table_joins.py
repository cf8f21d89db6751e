"""Joins of two tables by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import store_changes, stored_rows
from millstream.plan.joins import TableTableJoin

Joiner = Callable[[Any, Any, Any], Any]


@operator(TableTableJoin)
def table_table_join(node: TableTableJoin, build: Build) -> tuple[Process, Process]:
    """Joins a change on either side with the current row of the other side."""
    joiner = node.joiner.full()

    def reversed_joiner(key: Any, own: Any, other: Any) -> Any:
        return joiner(key, other, own)

    inner, outer = node.how == "inner", node.how == "outer"
    return (
        _side(node, build, node.left, node.right, joiner, needs_other=inner, needs_own=not outer),
        _side(node, build, node.right, node.left, reversed_joiner, needs_other=not outer, needs_own=inner),
    )


def _side(
    node: TableTableJoin, build: Build, own: Any, other: Any, joiner: Joiner, *, needs_other: bool, needs_own: bool
) -> Process:
    """Returns the process of one side. A result may need a row on the other side, or on this side."""
    forward, fail = store_changes(node, build), build.failure(node, node.joiner)
    get = build.getter(other)
    sends_old = node in build.facts.sends_old
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
            if sends_old and (old is not None or (match is not None and not needs_own)):
                former = joiner(key, old, match)
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return
        forward(key, result, former, max(timestamp, time), headers, latest)

    return process


@getter(TableTableJoin)
def joined_rows(node: TableTableJoin, build: Build) -> Getter:
    """Looks up a joined row in the join's store, or joins the rows of both sides."""
    if node.store is not None:
        return stored_rows(node, build)
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
