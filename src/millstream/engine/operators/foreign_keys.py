"""Joins of two tables by foreign key: subscriptions go to the right rows, and answers come back.

A subscription is keyed by the foreign key, an answer by the left row's key, and each goes through a topic, so that it
meets the rows it is about. An answer carries a digest of the left value that asked: if the row has changed meanwhile,
the answer is of no use, and another one is on its way.
"""

from __future__ import annotations

import hashlib
from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.context import Getter
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import table_store
from millstream.plan.joins import ForeignKeyAnswer, ForeignKeyResolve, ForeignKeySubscribe
from millstream.serde import BYTES, LONG, tuple_of

_FORGET = b"forget"
"""Unsubscribe; no answer."""
_FORGET_AND_ANSWER = b"forget+answer"
"""Unsubscribe, and answer with nothing, which deletes the result."""
_ANSWER = b"answer"
"""Subscribe, and answer with the row, or with nothing if there is none."""
_ANSWER_IF_THERE = b"answer-if-there"
"""Subscribe, and answer only if there is a row."""

_SUBSCRIPTION = tuple_of(BYTES, BYTES, BYTES)
_KEPT = tuple_of(BYTES, LONG)
_ANSWERED = tuple_of(BYTES, BYTES)


def digest(data: bytes | None) -> bytes:
    """Tells one left value from another; of none, it is empty."""
    return b"" if data is None else hashlib.blake2b(data, digest_size=16).digest()


@operator(ForeignKeySubscribe)
def subscribe(node: ForeignKeySubscribe, build: Build) -> Process:
    """Tells the right side which of its rows a left row wants now, and which it no longer wants."""
    send, fail = build.forward(node), build.failure(node, node.foreign_key)
    select = node.foreign_key.full()
    left_key, left_value, right_key = node.left_key.serialize, node.left_value.serialize, node.right_key.serialize
    outer = node.how == "left"
    skip_older = build.versioned(node.parent)
    no_foreign_key, no_key = build.drop(node, "null foreign key"), build.drop(node, "null key")
    older = build.drop(node, "older version")

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if skip_older and not latest:
            older(key, new, timestamp, headers)
            return
        if key is None:
            no_key(key, new, timestamp, headers)
            return
        if new is None and old is None:
            return
        try:
            wanted = None if new is None else select(key, new)
            former = None if old is None else select(key, old)
            same = right_key(wanted) == right_key(former)
            own, asked_by = left_key(key), digest(left_value(new))
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return

        def tell(foreign_key: Any, what: bytes) -> None:
            send(foreign_key, _SUBSCRIPTION.serialize((what, own, asked_by)), timestamp, headers)

        if outer or wanted is not None:
            if former is not None and not same:
                tell(former, _FORGET)
            tell(wanted, _ANSWER if outer or (former is not None and not same) else _ANSWER_IF_THERE)
            return
        if new is not None:
            no_foreign_key(key, new, timestamp, headers)
        if former is not None:
            tell(former, _FORGET_AND_ANSWER)

    return process


@operator(ForeignKeyAnswer)
def answer(node: ForeignKeyAnswer, build: Build) -> tuple[Process, Process]:
    """Keeps the subscriptions, and answers them: once when they come, and whenever the right row changes."""
    send, fail = build.forward(node), build.failure(node)
    subscriptions = build.context.store(node.store)
    row_of = build.getter(node.right)
    right_key, right_value, left_key = node.right_key.serialize, node.right_value.serialize, node.left_key.deserialize
    skip_older = build.versioned(node.right)
    no_key, older = build.drop(node, "null key"), build.drop(node, "older version")

    def prefix(key: Any) -> bytes:
        data = right_key(key) or b""
        return len(data).to_bytes(4, "big") + data

    def subscribed(foreign_key: Any, message: bytes, timestamp: int, headers: Headers) -> None:
        what, own, asked_by = _SUBSCRIPTION.deserialize(message) or ()
        if foreign_key is None:
            row = None
        else:
            place = prefix(foreign_key) + own
            forget = what in {_FORGET, _FORGET_AND_ANSWER}
            subscriptions.put(place, None if forget else _KEPT.serialize((asked_by, timestamp)))
            try:
                row = row_of(foreign_key)
            except FAILURES as error:
                fail(error, foreign_key, None, timestamp, headers)
                return
        if what == _FORGET or (what == _ANSWER_IF_THERE and row is None):
            return
        value, time = (None, timestamp) if row is None else row
        found = None if what == _FORGET_AND_ANSWER else value
        reply = _ANSWERED.serialize((asked_by, right_value(found)))
        send(left_key(own), reply, max(timestamp, time), headers)

    def changed(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if key is None or (skip_older and not latest):
            (no_key if key is None else older)(key, new, timestamp, headers)
            return
        found = right_value(new)
        start = prefix(key)
        for place, kept in list(subscriptions.prefix(start)):
            asked_by, _time = _KEPT.deserialize(kept) or ()
            send(left_key(place[len(start) :]), _ANSWERED.serialize((asked_by, found)), timestamp, headers)

    return subscribed, changed


@operator(ForeignKeyResolve)
def resolve(node: ForeignKeyResolve, build: Build) -> Process:
    """Joins an answer with the left row, if that is still the one that asked."""
    forward, fail = build.forward(node), build.failure(node, node.joiner)
    left_row = build.getter(node.left)
    left_value, right_value = node.left_value.serialize, node.right_value.deserialize
    joiner = node.joiner.full()
    outer = node.how == "left"
    stale, expired = build.drop(node, "stale answer"), build.drop(node, "older than the history")
    rows = table_store(build.context.store(node.store)) if node in build.facts.kept else None

    def process(key: Any, message: bytes, timestamp: int, headers: Headers) -> None:
        asked_by, data = _ANSWERED.deserialize(message) or ()
        try:
            row = left_row(key)
            if digest(None if row is None else left_value(row[0])) != asked_by:
                stale(key, data, timestamp, headers)
                return
            right = right_value(data)
            nothing = right is None and (not outer or row is None)
            result = None if nothing else joiner(key, None if row is None else row[0], right)
        except FAILURES as error:
            fail(error, key, None, timestamp, headers)
            return
        if rows is None:
            forward(key, result, None, timestamp, headers, True)
            return
        before = rows.get(key)
        latest = rows.put(key, result, timestamp)
        if latest is None:
            expired(key, result, timestamp, headers)
        else:
            forward(key, result, None if before is None else before[0], timestamp, headers, latest)

    return process


@getter(ForeignKeyResolve)
def resolved_rows(node: ForeignKeyResolve, build: Build) -> Getter:
    """Looks a result up in the join's store."""
    rows: Getter = build.context.store(node.store).get
    return rows
