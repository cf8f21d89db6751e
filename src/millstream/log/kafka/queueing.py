"""Adds records to the queue of a producer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import length_hint
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.core.records import Headers
from millstream.errors import RecordRefusedError
from millstream.log.api import Append
from millstream.log.blocks import Block, ColumnBlock, decode, decode_headers
from millstream.log.kafka.clients import code_of

SETTINGS = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "compression.type": "lz4",
    "retry.backoff.ms": 10,  # a coordinator that still ends a transaction refuses the next one
}
"""Settings of producers."""

REFUSALS = {
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
"""The errors of brokers that refuse a record: what is wrong, and what to do."""

_PLACE = re.compile(r"ProduceRequest for (?P<topic>\S+) \[(?P<partition>\d+)\]")
_NEW = {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}


Delivered: TypeAlias = Callable[[KafkaError | None, Message], None]
"""Takes the report of one record."""


def enqueue_all(producer: Producer, append: Append, seconds: float, delivered: Delivered | None = None) -> None:
    """Adds the records of a block to the queue.

    The batch call of the client has neither timestamps nor headers.

    Args:
        producer: The producer.
        append: The block.
        seconds: The timeout of a request for metadata.
        delivered: Called for each record when it is acknowledged, or when it could not be written.
    """
    if isinstance(append.block, ColumnBlock) and append.block.headers is None:
        _enqueue_columns(producer, append, append.block, seconds, delivered)
        return
    produce, topic, partition = producer.produce, append.topic, append.partition
    for timestamp, key, value, headers in _records(append.block):
        # Keyword arguments, or headers that are None, would take a third of the time of the call.
        more: tuple[Any, ...] = ([*headers],) if headers else ()
        try:
            produce(topic, value, key, partition, delivered, None, timestamp, *more)
        except (BufferError, KafkaException):
            named = {"on_delivery": delivered, **({"headers": more[0]} if more else {})}
            enqueue(producer, (topic, partition), key, value, seconds, timestamp=timestamp, **named)


def _enqueue_columns(
    producer: Producer, append: Append, block: ColumnBlock, seconds: float, delivered: Delivered | None
) -> None:
    """Adds records without headers to the queue. A loop of the interpreter would take a sixth longer."""
    if not len(block.timestamps) == len(block.keys) == len(block.values):
        raise RecordRefusedError("the columns are not valid records: they differ in length")
    topic, partition, values = append.topic, append.partition, iter(block.values)
    constant: tuple[Any, ...] = (repeat(partition), repeat(delivered), repeat(None))
    calls = map(producer.produce, repeat(topic), values, block.keys, *constant, block.timestamps)
    while True:
        try:
            deque(calls, maxlen=0)
            return
        except (BufferError, KafkaException):
            place = len(block.values) - length_hint(values) - 1  # that of the record that was not added
            more = {"timestamp": block.timestamps[place], "on_delivery": delivered}
            enqueue(producer, (topic, partition), block.keys[place], block.values[place], seconds, **more)


def enqueue(
    producer: Producer, place: tuple[str, int], key: bytes | None, value: bytes | None, seconds: float, **more: Any
) -> None:
    """Adds a record to the queue, and waits while the queue is full."""
    refreshed = False
    topic, partition = place
    while True:
        try:
            producer.produce(topic, value, key, partition, **more)
            return
        except BufferError:  # the broker is slower than this loop
            producer.poll(0.1)
        except KafkaException as error:
            if code_of(error).code() in _NEW and not refreshed:  # the metadata of the producer is out of date
                producer.list_topics(topic, seconds)
                refreshed = True
                continue
            if code_of(error).code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise RecordRefusedError(
                    f"a record of {len(key or b'') + len(value or b'')} bytes is too large for topic {topic!r}",
                    hint="raise max.message.bytes of the topic, and message.max.bytes of the producer",
                ) from error
            raise


def _records(block: Block | ColumnBlock) -> Iterable[tuple[int, bytes | None, bytes | None, Headers]]:
    """Returns the timestamp, key, value and headers of each record of a block."""
    if isinstance(block, ColumnBlock):
        timestamps, keys, values, headers = block
        return zip(timestamps, keys, values, headers or repeat((), len(timestamps)), strict=True)
    columns = decode(block.data).to_pydict()
    headers = [decode_headers(encoded) if encoded else () for encoded in columns["headers"]]
    return zip(columns["timestamp"], columns["key"], columns["value"], headers, strict=True)


def refusal(cause: KafkaError) -> RecordRefusedError:
    """Returns the error for a refused record. The partition is known from the text of the cause only."""
    what, hint = REFUSALS[cause.code()]
    place = _PLACE.search(cause.str())
    where = f"topic {place['topic']!r}, partition {place['partition']}: " if place else ""
    return RecordRefusedError(f"{where}{what}", hint=hint)
