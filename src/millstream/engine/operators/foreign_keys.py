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
from millstream.engine.foreign_key_messages import (
    ANSWER,
    ANSWER_IF_PRESENT,
    UNSUBSCRIBE,
    UNSUBSCRIBE_AND_ANSWER,
    digest_of_row,
    pack_answer,
    pack_row,
    pack_subscription,
    unpack_answer,
    unpack_subscription,
)
from millstream.engine.table_stores import stored_rows, table_store
from millstream.plan.joins import ForeignKeyAnswer, ForeignKeyResolve, ForeignKeySubscribe


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
            own_key, own_digest = left_key(key) or b"", digest(left_value(new))
        except FAILURES as error:
            fail(error, key, new, timestamp, headers)
            return

        def instruct(foreign_key: Any, instruction: bytes) -> None:
            send(foreign_key, pack_subscription(instruction, own_key, own_digest), timestamp, headers)

        if outer or current is not None:
            if former is not None and not same:
                instruct(former, UNSUBSCRIBE)
            instruct(current, ANSWER if outer or (former is not None and not same) else ANSWER_IF_PRESENT)
            return
        if new is not None:
            no_foreign_key(key, new, timestamp, headers)
        if former is not None:
            instruct(former, UNSUBSCRIBE_AND_ANSWER)

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
        instruction, own_key, own_digest = unpack_subscription(message)
        if foreign_key is None:
            row = None
        else:
            subscription = prefix(foreign_key) + own_key
            ends = instruction in {UNSUBSCRIBE, UNSUBSCRIBE_AND_ANSWER}
            subscriptions.put(subscription, None if ends else pack_row(own_digest, timestamp))
            try:
                row = row_of(foreign_key)
            except FAILURES as error:
                fail(error, foreign_key, None, timestamp, headers)
                return
        if instruction == UNSUBSCRIBE or (instruction == ANSWER_IF_PRESENT and row is None):
            return
        value, time = (None, timestamp) if row is None else row
        answered = None if instruction == UNSUBSCRIBE_AND_ANSWER else value
        reply = pack_answer(own_digest, right_value(answered))
        send(left_key(own_key), reply, max(timestamp, time), headers)

    def changed(key: Any, new: Any, _old: Any, timestamp: int, headers: Headers, latest: bool) -> None:
        if key is None or (skip_older and not latest):
            (no_key if key is None else older)(key, new, timestamp, headers)
            return
        value = right_value(new)
        start = prefix(key)
        for subscription, row in list(subscriptions.prefix(start)):
            send(left_key(subscription[len(start) :]), pack_answer(digest_of_row(row), value), timestamp, headers)

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
        own_digest, data = unpack_answer(message)
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
