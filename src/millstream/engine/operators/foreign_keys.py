"""Joins of two tables by foreign key: the left side sends subscriptions, the right side sends answers.

A subscription has the foreign key as its key, an answer the key of the left row. Each goes through a repartition topic,
to the partition of the rows that it concerns. An answer contains a digest of the left value that subscribed: if the
left row has changed meanwhile, the answer is stale and is dropped, because the change sent a subscription of its own.
A null answer of an inner join deletes the result even then: the later subscription is not answered if there is no
right row. Answers arrive in the order of subscriptions, so a later answer gives a later result.
"""

from __future__ import annotations

import hashlib
from typing import Any

from millstream.core.records import Headers
from millstream.engine.compile import Build, Process, getter, operator
from millstream.engine.errors import FAILURES
from millstream.engine.table_stores import stored_rows, table_store
from millstream.plan.joins import ForeignKeyAnswer, ForeignKeyResolve, ForeignKeySubscribe
from millstream.serde import BYTES, LONG, tuple_of

_UNSUBSCRIBE = b"forget"
"""Unsubscribe; no answer."""
_UNSUBSCRIBE_AND_ANSWER = b"forget+answer"
"""Unsubscribe, and answer with null, which deletes the result."""
_ANSWER = b"answer"
"""Subscribe, and answer with the row, or with null if there is none."""
_ANSWER_IF_PRESENT = b"answer-if-there"
"""Subscribe, and answer only if there is a row."""

_SUBSCRIPTION_MESSAGE = tuple_of(BYTES, BYTES, BYTES)  # instruction, key of the left row, digest of the left value
_SUBSCRIPTION_ROW = tuple_of(BYTES, LONG)  # digest of the left value, timestamp
_ANSWER_MESSAGE = tuple_of(BYTES, BYTES)  # digest of the left value, right value


def digest(data: bytes | None) -> bytes:
    """Returns the digest of a left value; empty for None."""
    return b"" if data is None else hashlib.blake2b(data, digest_size=16).digest()


@operator(ForeignKeySubscribe)
def subscribe(node: ForeignKeySubscribe, build: Build) -> Process:
    """Subscribes a changed left row to the right row of its foreign key, and unsubscribes it from the former one."""
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
            current = None if new is None else select(key, new)
            former = None if old is None else select(key, old)
            same = right_key(current) == right_key(former)
            own_key, own_digest = left_key(key), digest(left_value(new))
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return

        def instruct(foreign_key: Any, instruction: bytes) -> None:
            message = _SUBSCRIPTION_MESSAGE.serialize((instruction, own_key, own_digest))
            send(foreign_key, message, timestamp, headers)

        if outer or current is not None:
            if former is not None and not same:
                instruct(former, _UNSUBSCRIBE)
            instruct(current, _ANSWER if outer or (former is not None and not same) else _ANSWER_IF_PRESENT)
            return
        if new is not None:
            no_foreign_key(key, new, timestamp, headers)
        if former is not None:
            instruct(former, _UNSUBSCRIBE_AND_ANSWER)

    return process


@operator(ForeignKeyAnswer)
def answer(node: ForeignKeyAnswer, build: Build) -> tuple[Process, Process]:
    """Stores subscriptions and answers them: when they arrive, and whenever the right row changes."""
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
        instruction, own_key, own_digest = _SUBSCRIPTION_MESSAGE.deserialize(message) or ()
        if foreign_key is None:
            row = None
        else:
            subscription = prefix(foreign_key) + own_key
            ends = instruction in {_UNSUBSCRIBE, _UNSUBSCRIBE_AND_ANSWER}
            subscriptions.put(subscription, None if ends else _SUBSCRIPTION_ROW.serialize((own_digest, timestamp)))
            try:
                row = row_of(foreign_key)
            except FAILURES as error:
                fail(error, foreign_key, None, timestamp, headers)
                return
        if instruction == _UNSUBSCRIBE or (instruction == _ANSWER_IF_PRESENT and row is None):
            return
        value, time = (None, timestamp) if row is None else row
        answered = None if instruction == _UNSUBSCRIBE_AND_ANSWER else value
        reply = _ANSWER_MESSAGE.serialize((own_digest, right_value(answered)))
        send(left_key(own_key), reply, max(timestamp, time), headers)

    def changed(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if key is None or (skip_older and not latest):
            (no_key if key is None else older)(key, new, timestamp, headers)
            return
        value = right_value(new)
        start = prefix(key)
        for subscription, row in list(subscriptions.prefix(start)):
            own_digest, _time = _SUBSCRIPTION_ROW.deserialize(row) or ()
            send(
                left_key(subscription[len(start) :]), _ANSWER_MESSAGE.serialize((own_digest, value)), timestamp, headers
            )

    return subscribed, changed


@operator(ForeignKeyResolve)
def resolve(node: ForeignKeyResolve, build: Build) -> Process:
    """Joins an answer with the left row, if the row has not changed since its subscription."""
    forward, fail = build.forward(node), build.failure(node, node.joiner)
    left_row = build.getter(node.left)
    left_value, right_value = node.left_value.serialize, node.right_value.deserialize
    joiner = node.joiner.full()
    outer = node.how == "left"
    stale, expired = build.drop(node, "stale answer"), build.drop(node, "older than the history")
    rows = table_store(build.context.store(node.store)) if node in build.facts.kept else None

    def process(key: Any, message: bytes, timestamp: int, headers: Headers) -> None:
        own_digest, data = _ANSWER_MESSAGE.deserialize(message) or ()
        try:
            row = left_row(key)
            if digest(None if row is None else left_value(row[0])) != own_digest and (outer or data is not None):
                stale(key, data, timestamp, headers)
                return
            right = right_value(data)
            deleted = right is None and (not outer or row is None)
            result = None if deleted else joiner(key, None if row is None else row[0], right)
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


getter(ForeignKeyResolve)(stored_rows)
