"""Transactions of a producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from millstream.core.failpoints import declare, reach
from millstream.errors import AuthorizationError, BrokerError, LogError, RecordRefusedError
from millstream.log.api import Append, Offsets
from millstream.log.kafka import positions
from millstream.log.kafka.calls import Calls
from millstream.log.kafka.clients import Clients, code_of
from millstream.log.kafka.queueing import REFUSALS, SETTINGS, enqueue, enqueue_all, refusal

BEFORE_PRODUCE = declare("kafka.publish.before-produce")
AFTER_PRODUCE = declare("kafka.publish.after-produce")
BEFORE_COMMIT = declare("kafka.publish.before-commit")
DURING_COMMIT = declare("kafka.publish.during-commit")
AFTER_COMMIT = declare("kafka.publish.after-commit")

_POLL = 0.005
_MOMENT = 1.0
_PATIENCE = 2.0
_REQUESTS = 2
"""Requests for metadata until a new producer is connected. After one, it sometimes is not."""

_CALLS = 3
"""The calls of a transaction that may each take as long as a request: offsets, commit, abort."""


_PROBE_SECONDS = 3.0
_SETTLED_SECONDS = 5.0
"""Time for which a cluster answers again before a call from before its outage is given up."""


class Outage:
    """Notices that the cluster did not answer for a while, and answers again: some calls then never return.

    Also a call that begins long after the outage: the next request to the coordinator of the consumer group does not
    return to a producer that has lost its connection.

    Args:
        clients: Requests an answer.
        losses: The number of lost connections before the first call of the producer.
    """

    def __init__(self, clients: Clients, losses: int) -> None:
        self._clients = clients
        self._losses = losses
        self._is_noticed = False
        self._answers_since: float | None = None

    def is_over(self) -> bool:
        """Whether there was an outage, and the cluster has answered long enough since."""
        if not self._clients.answers(_PROBE_SECONDS):
            self._is_noticed, self._answers_since = True, None
            return False
        now = time.monotonic()
        self._answers_since = self._answers_since or now
        self._is_noticed = self._is_noticed or self._clients.losses > self._losses
        return self._is_noticed and now - self._answers_since >= _SETTLED_SECONDS


class JournalRecord(NamedTuple):
    """A record for the journal of a scope: partition, key and value."""

    partition: int
    key: bytes
    value: bytes


def _none(_topic: str) -> bool:
    return False


class UnknownResultError(BrokerError):
    """The result of a transaction is unknown: the producer cannot be used any longer."""

    code = "unknown-result"


class FencedProducerError(LogError):
    """The producer was fenced by a later one of the same id, or the transaction timed out."""

    code = "fenced-producer"


class Transactions:
    """The transactions of one transactional id.

    Args:
        clients: Creates the producer.
        name: The transactional id. A later producer with the same id fences this one.
        settings: Additional settings of the producer.
        group: The consumer group to which offsets are committed; by default that of the same name.
        known: An existing topic, whose metadata is requested first. A producer that is not yet connected often looks
            for the coordinator of transactions again only after half a second.
    """

    def __init__(
        self,
        clients: Clients,
        name: str,
        settings: Mapping[str, Any],
        *,
        group: str | None = None,
        known: str | None = None,
    ) -> None:
        self._clients = clients
        self._name = name
        self._group_id = group or name
        self._producer: Producer = clients.producer(name, {**SETTINGS, **settings})
        self._group: Any = None
        self._calls = Calls()
        self._is_quick = False
        self._touched: set[tuple[str, int]] = set()
        try:
            for _ in range(_REQUESTS if known is not None else 0):
                self._producer.list_topics(known, clients.timeout)
            self._losses = clients.losses
            self._within(self._producer.init_transactions)
        except KafkaException as error:
            raise clients.failure(error, f"transactions of {name!r} cannot be initialized") from error
        self._producer.poll(0)  # reports earlier losses
        self._losses = clients.losses

    def write(
        self,
        appends: Iterable[Append],
        journal: tuple[str, list[JournalRecord]] | None = None,
        offsets: Offsets | None = None,
        own: Callable[[str], bool] = _none,
        *,
        quick: bool = False,
    ) -> None:
        """Writes blocks, records of a journal and offsets of the consumer group in one transaction.

        When it returns, the records are visible to readers, except behind an open transaction of another producer.

        Args:
            appends: The blocks.
            journal: A topic, and records for it.
            offsets: The offsets to commit.
            own: Returns whether no other producer writes to a topic.
            quick: Whether to return as soon as the commit is acknowledged, before it is visible, and to make all calls
                in one other thread: while a thread computes, each change of threads takes the interpreter's switch
                interval.

        Raises:
            RecordRefusedError: A record is not accepted.
            FencedProducerError: The producer was fenced.
            UnknownResultError: The transaction may have been committed or not.
        """
        self._is_quick = quick
        if quick:
            answer = self._calls.start(partial(self._transact, appends, journal, offsets))
            self._touched = self._result(answer, _CALLS * self._clients.timeout)
        else:
            self._touched = self._transact(appends, journal, offsets)
            self.wait_until_visible(own)

    def _transact(
        self,
        appends: Iterable[Append],
        journal: tuple[str, list[JournalRecord]] | None,
        offsets: Offsets | None,
    ) -> set[tuple[str, int]]:
        """Writes a transaction, and returns the partitions that it wrote to."""
        reach(BEFORE_PRODUCE)
        touched: set[tuple[str, int]] = set()
        try:
            self._producer.begin_transaction()
            for append in appends:
                enqueue_all(self._producer, append, self._clients.timeout)
                touched.add((append.topic, append.partition))
            if journal is not None:
                topic, records = journal
                for partition, key, value in records:
                    enqueue(self._producer, (topic, partition), key, value, self._clients.timeout)
                    touched.add((topic, partition))
            reach(AFTER_PRODUCE)
            if not self._is_quick:
                self._flush()
            if offsets:
                self._send_offsets(offsets)
            reach(BEFORE_COMMIT)
            self._commit()
        except RecordRefusedError:
            self._abort()
            raise
        except KafkaException as error:
            self._give_up(error, touched)
        reach(AFTER_COMMIT)
        return touched

    def _send_offsets(self, offsets: Offsets) -> None:
        if self._group is None:
            # The call may never return for a consumer without a connection, so its result is kept.
            consumer = self._clients.consumer(self._group_id, {})
            self._group = consumer.consumer_group_metadata()
            consumer.close()
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._within(self._producer.send_offsets_to_transaction, places, self._group)

    def _within(self, call: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], None] | None = None) -> None:
        """Makes a call with a timeout. Some calls exceed it after a broker was down."""
        limit = self._clients.timeout
        answer = None if self._is_quick else self._calls.start(partial(call, *arguments, limit))
        if meanwhile is not None:
            meanwhile()
        if answer is not None:
            self._result(answer, limit + _PATIENCE)
        else:
            call(*arguments, limit)  # the whole transaction has a timeout

    def _result(self, answer: Any, seconds: float) -> Any:
        try:
            return self._calls.result(answer, seconds, Outage(self._clients, self._losses).is_over)
        except TimeoutError:
            raise UnknownResultError(f"a transaction of {self._name!r} gets no response") from None

    def _flush(self) -> None:
        deadline = time.monotonic() + self._clients.timeout
        while self._producer.flush(1.0) and time.monotonic() < deadline:
            pass

    def _commit(self) -> None:
        """Commits the transaction. The client first sends all records that are left in its queue."""
        deadline = time.monotonic() + self._clients.timeout
        while True:
            try:
                self._within(self._producer.commit_transaction, meanwhile=partial(reach, DURING_COMMIT))
            except KafkaException as error:
                if code_of(error).retriable() and time.monotonic() < deadline:
                    continue
                raise
            return

    def wait_until_visible(self, own: Callable[[str], bool] = _none) -> None:
        """Waits until the last commit is visible. A broker that dies before the commit markers are written may lose it.

        Once it is visible in one partition, it cannot be lost any more. So topics in which another producer may have an
        open transaction are waited for only for a short time.

        Args:
            own: Returns whether no other producer writes to a topic.

        Raises:
            UnknownResultError: It does not become visible.
        """
        touched, self._touched = self._touched, set()
        specs = dict.fromkeys(touched, positions.LATEST)
        started = time.monotonic()
        try:
            written = positions.list_offsets(self._clients, specs, committed=False)
            while (waited := time.monotonic() - started) < self._clients.timeout:
                visible = positions.list_offsets(self._clients, specs)
                hidden = [topic for topic, partition in specs if visible[topic, partition] < written[topic, partition]]
                if not hidden or (waited > _MOMENT and not any(map(own, hidden))):
                    return
                time.sleep(_POLL)
        except LogError as error:
            raise UnknownResultError(f"a transaction of {self._name!r} was committed; then {error.message}") from error
        raise UnknownResultError(f"a transaction of {self._name!r} was committed, and is not visible")

    def _abort(self) -> None:
        try:
            self._within(self._producer.abort_transaction)
        except KafkaException as error:
            self._give_up(error)

    def _give_up(self, error: KafkaException, touched: Iterable[tuple[str, int]] = ()) -> None:
        cause = code_of(error)
        if cause.code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}:
            raise FencedProducerError(f"transactions of {self._name!r}: {cause.str()}") from error
        if cause.txn_requires_abort() and not cause.fatal():
            topics = ", ".join(sorted({topic for topic, _ in touched}))
            failure = self._clients.failure(error, f"a transaction of {self._name!r} ({topics}) was aborted")
            if cause.code() in REFUSALS:
                failure = refusal(cause)
            try:
                self._abort()
            except (UnknownResultError, FencedProducerError):  # there may be nothing to abort
                if not isinstance(failure, AuthorizationError):
                    raise
            raise failure from error
        raise UnknownResultError(f"a transaction of {self._name!r} ended without a response: {cause.str()}") from error
