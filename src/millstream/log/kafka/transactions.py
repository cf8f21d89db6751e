"""Transactions of a producer."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from millstream.core.failpoints import declare, reach
from millstream.errors import AuthorizationError, BrokerError, LogError, RecordRefusedError
from millstream.log.api import Append, Offsets
from millstream.log.blocks import decode, decode_headers
from millstream.log.kafka import positions
from millstream.log.kafka.clients import Clients, code_of

BEFORE_PRODUCE = declare("kafka.publish.before-produce")
AFTER_PRODUCE = declare("kafka.publish.after-produce")
BEFORE_COMMIT = declare("kafka.publish.before-commit")
DURING_COMMIT = declare("kafka.publish.during-commit")
AFTER_COMMIT = declare("kafka.publish.after-commit")

SETTINGS = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "compression.type": "lz4",
}
_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: ("a record is too large", "raise max.message.bytes of the topic"),
    KafkaError.INVALID_TIMESTAMP: (
        "a record has a timestamp that the topic does not accept",
        "see message.timestamp.after.max.ms and message.timestamp.before.max.ms of the topic",
    ),
    KafkaError.INVALID_RECORD: (
        "a record is not valid, such as one without a key in a compacted topic",
        "see the cleanup.policy of the topic",
    ),
}
_PLACE = re.compile(r"ProduceRequest for (?P<topic>\S+) \[(?P<partition>\d+)\]")
_NEW = {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}
_POLL = 0.005
_MOMENT = 1.0
_PATIENCE = 2.0


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
        patience: Seconds to wait until a commit is visible in topics that others write to.
    """

    def __init__(
        self,
        clients: Clients,
        name: str,
        settings: Mapping[str, Any],
        *,
        group: str | None = None,
        patience: float = _MOMENT,
    ) -> None:
        self._clients = clients
        self._name = name
        self._group_id = group or name
        self._patience = patience
        self._producer: Producer = clients.producer(name, {**SETTINGS, **settings})
        self._group: Any = None
        try:
            self._within(self._producer.init_transactions)
        except KafkaException as error:
            raise clients.failure(error, f"transactions of {name!r} cannot be initialized") from error

    def write(
        self,
        appends: Iterable[Append],
        journal: tuple[str, list[JournalRecord]] | None = None,
        offsets: Offsets | None = None,
        own: Callable[[str], bool] = _none,
    ) -> None:
        """Writes blocks, records of a journal and offsets of the consumer group in one transaction.

        When it returns, the records are visible to readers, except behind an open transaction of another producer.

        Args:
            appends: The blocks.
            journal: A topic, and records for it.
            offsets: The offsets to commit.
            own: Returns whether no other producer writes to a topic.

        Raises:
            RecordRefusedError: A record is not accepted.
            FencedProducerError: The producer was fenced.
            UnknownResultError: The transaction may have been committed or not.
        """
        reach(BEFORE_PRODUCE)
        touched: set[tuple[str, int]] = set()
        try:
            self._producer.begin_transaction()
            for append in appends:
                self._produce(append)
                touched.add((append.topic, append.partition))
            if journal is not None:
                topic, records = journal
                for partition, key, value in records:
                    self._send(topic, partition, key, value)
                    touched.add((topic, partition))
            reach(AFTER_PRODUCE)
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
        self._wait_until_visible(touched, own)

    def _produce(self, append: Append) -> None:
        columns = decode(append.block.data).to_pydict()
        produce, topic, partition = self._producer.produce, append.topic, append.partition
        for timestamp, key, value, headers in zip(*columns.values(), strict=True):
            # Keyword arguments, or headers that are None, would take a third of the time of the call.
            more: tuple[Any, ...] = ([*decode_headers(headers)],) if headers else ()
            try:
                produce(topic, value, key, partition, None, None, timestamp, *more)
            except (BufferError, KafkaException):
                named = {"headers": more[0]} if more else {}
                self._send(topic, partition, key, value, timestamp=timestamp, **named)

    def _send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, **more: Any) -> None:
        """Adds a record to the queue of the producer, and waits while it is full."""
        refreshed = False
        while True:
            try:
                self._producer.produce(topic, value, key, partition, **more)
                return
            except BufferError:  # the broker is slower than this loop
                self._producer.poll(0.1)
            except KafkaException as error:
                if code_of(error).code() in _NEW and not refreshed:  # the metadata of the producer is out of date
                    self._producer.list_topics(topic, self._clients.timeout)
                    refreshed = True
                    continue
                if code_of(error).code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise RecordRefusedError(
                        f"a record of {len(key or b'') + len(value or b'')} bytes is too large for topic {topic!r}",
                        hint="raise max.message.bytes of the topic, and message.max.bytes of the producer",
                    ) from error
                raise

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
        ended: SimpleQueue[Exception | None] = SimpleQueue()

        def run() -> None:
            try:
                call(*arguments, limit)
                ended.put(None)
            except Exception as error:  # noqa: BLE001  (it is raised below)
                ended.put(error)

        threading.Thread(target=run, name="millstream-kafka-call", daemon=True).start()
        if meanwhile is not None:
            meanwhile()
        try:
            error = ended.get(timeout=limit + _PATIENCE)
        except Empty:
            raise UnknownResultError(f"a transaction of {self._name!r} gets no response") from None
        if error is not None:
            raise error

    def _flush(self) -> None:
        deadline = time.monotonic() + self._clients.timeout
        while self._producer.flush(1.0) and time.monotonic() < deadline:
            pass

    def _commit(self) -> None:
        deadline = time.monotonic() + self._clients.timeout
        while True:
            try:
                self._within(self._producer.commit_transaction, meanwhile=partial(reach, DURING_COMMIT))
            except KafkaException as error:
                if code_of(error).retriable() and time.monotonic() < deadline:
                    continue
                raise
            return

    def _wait_until_visible(self, touched: Iterable[tuple[str, int]], own: Callable[[str], bool]) -> None:
        """Waits until the commit is visible. A broker that dies before the commit markers are written may lose it.

        Once it is visible in one partition, it cannot be lost any more. So topics in which another producer may have an
        open transaction are waited for only for a short time.
        """
        specs = dict.fromkeys(touched, positions.LATEST)
        started = time.monotonic()
        try:
            written = positions.list_offsets(self._clients, specs, committed=False)
            while (waited := time.monotonic() - started) < self._clients.timeout:
                visible = positions.list_offsets(self._clients, specs)
                hidden = [topic for topic, partition in specs if visible[topic, partition] < written[topic, partition]]
                if not hidden or (waited > self._patience and not any(map(own, hidden))):
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
            if cause.code() in _REFUSALS:
                failure = _refusal(cause)
            try:
                self._abort()
            except (
                UnknownResultError,
                FencedProducerError,
            ):  # there may be nothing to abort
                if not isinstance(failure, AuthorizationError):
                    raise
            raise failure from error
        raise UnknownResultError(f"a transaction of {self._name!r} ended without a response: {cause.str()}") from error


def _refusal(cause: KafkaError) -> RecordRefusedError:
    """Returns the error for a refused record. The partition is known from the text of the cause only."""
    what, hint = _REFUSALS[cause.code()]
    place = _PLACE.search(cause.str())
    where = f"topic {place['topic']!r}, partition {place['partition']}: " if place else ""
    return RecordRefusedError(f"{where}{what}", hint=hint)
