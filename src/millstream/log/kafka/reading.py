"""Reads ranges of partitions into Arrow tables."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from millstream.errors import LogError, OffsetOutOfRangeError
from millstream.log.api import SCHEMA, check_partition
from millstream.log.blocks import encode_headers, encode_unreadable
from millstream.log.kafka import positions, topics
from millstream.log.kafka.clients import Clients, close_consumer

_AT_ONCE = 20_000
_WAITS = (0.0, 0.001, 0.002, 0.005, 0.01)
"""A range may end in control records of transactions, so fewer records than requested may arrive: waits are short."""

_KEPT = 32
_SETTINGS = {
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 1024 * 1024,
    "queued.max.messages.kbytes": 4 * 1024,  # another process may continue: then prefetched records are wasted
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 20,  # the first fetch of a new topic often fails
    "check.crcs": False,
}
SAMPLING = {"fetch.message.max.bytes": 64 * 1024, "queued.min.messages": 1, "queued.max.messages.kbytes": 256}
"""For reads of a few records at different offsets."""

_END = KafkaError._PARTITION_EOF
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""A client looks up its group, which must be named. It is not used, and the user may have no right to it."""
_GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


class Readers:
    """Consumers that keep their positions, so that a following read of a partition continues without a new fetch.

    Args:
        clients: Creates consumers.
        settings: Additional settings of consumers.
    """

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._settings = {**_SETTINGS, **settings}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._idle: OrderedDict[tuple[str, int], _Reader] = OrderedDict()

    def read(self, topic: str, partition: int, start: int, end: int, max_bytes: int | None = None) -> pa.Table:
        """Returns the records from one offset up to another."""
        return _table(self._messages(topic, partition, start, end, max_bytes))

    def pairs(self, topic: str, partition: int, start: int, end: int) -> list[tuple[bytes | None, bytes | None]]:
        """Returns the keys and values of the records from one offset up to another.

        The first Arrow table of a process takes most of a second, because Arrow imports pandas.
        """
        messages = self._messages(topic, partition, start, end, None)
        return [(_bytes(message.key()), _bytes(message.value())) for message in messages]

    def _messages(self, topic: str, partition: int, start: int, end: int, max_bytes: int | None) -> list[Message]:
        reader = self._take(topic, partition)
        try:
            messages = reader.read(start, end, max_bytes)
        except KafkaException as error:
            reader.close()
            raise self._clients.failure(error, f"topic {topic!r} cannot be read") from error
        except BaseException:
            reader.close()
            raise
        self._give(reader)
        return messages

    def forget(self, topic: str) -> None:
        """Closes the consumers of a topic: their prefetched records may be deleted."""
        with self._lock:
            old = [self._idle.pop(place) for place in list(self._idle) if place[0] == topic]
        for reader in old:
            reader.close()

    def close(self) -> None:
        """Closes all consumers."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        if self._process == os.getpid():
            for reader in idle.values():
                reader.close()

    def _take(self, topic: str, partition: int) -> _Reader:
        with self._lock:
            if self._process != os.getpid():  # consumers do not outlive a fork
                self._process, self._idle = os.getpid(), OrderedDict()
            reader = self._idle.pop((topic, partition), None)
        if reader is not None:
            return reader
        check_partition(topic, topics.count_of(self._clients, topic), partition)
        with self._lock:
            reader = self._idle.popitem(last=False)[1] if len(self._idle) >= _KEPT else None
        if reader is None:
            return _Reader(self._clients, self._settings, topic, partition)
        reader.move(topic, partition)  # a new consumer would have to connect, which takes longer
        return reader

    def _give(self, reader: _Reader) -> None:
        with self._lock:
            self._idle[reader.topic, reader.partition] = reader
            old = self._idle.popitem(last=False)[1] if len(self._idle) > _KEPT else None
        if old is not None:
            old.close()


class _Reader:
    """A consumer of one partition, and its prefetched records."""

    def __init__(self, clients: Clients, settings: Mapping[str, Any], topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._clients = clients
        self._consumer: Consumer = clients.consumer(f"millstream-{uuid.uuid4()}", settings)
        self._next: int | None = None
        self._ahead: list[Message] = []
        self._is_refused = False
        self._is_connected = False

    def close(self) -> None:
        close_consumer(self._consumer)

    def move(self, topic: str, partition: int) -> None:
        """Assigns another partition."""
        self.topic, self.partition = topic, partition
        self._next, self._ahead = None, []

    def read(self, start: int, end: int, max_bytes: int | None) -> list[Message]:
        """Reads records up to an offset or a number of bytes."""
        if start >= end:  # an assignment would prefetch records that a recreated topic does not have
            return []
        if not self._is_connected:
            # A consumer that is not connected when it gets a partition often asks for its leader again after a second.
            self._consumer.list_topics(self.topic, self._clients.timeout)
            self._is_connected = True
        if self._next != start:
            self._consumer.assign([TopicPartition(self.topic, self.partition, start)])
            self._next, self._ahead = start, []
        result: list[Message] = []
        left, deadline, waited = max_bytes, time.monotonic() + self._clients.timeout, 0
        self._is_refused = False
        while self._next < end:
            messages = self._ahead or self._consumer.consume(min(_AT_ONCE, end - self._next), _WAITS[waited])
            waited = 0 if messages else min(waited + 1, len(_WAITS) - 1)
            if not messages and time.monotonic() > deadline:
                raise self._silence()
            count = next((n for n, message in enumerate(messages) if message.error() is not None), len(messages))
            if count:
                taken = _fitting(messages[:count], end, left)
                result += taken
                self._next = _offset(taken[-1]) + 1 if taken else end
                self._ahead = messages[len(taken) :]
                self._is_refused = False
                deadline = time.monotonic() + self._clients.timeout
                if left is not None:
                    left -= sum(map(_size, taken))
                    if left <= 0:
                        break
            elif messages:
                self._ahead = messages
                if self._ends_at(messages[0], end):
                    break
                self._ahead = self._ahead[1:]
        return result

    def _ends_at(self, event: Message, end: int) -> bool:
        """Handles an event of the partition. Returns whether the range is complete."""
        error, offset = event.error(), _offset(event)
        assert error is not None
        if error.code() == _END and offset >= end:
            # A range may end in control records, which are never delivered. The next range may contain nothing else,
            # so the event stays in `_ahead`: a consumer reports it once.
            self._next = end
            return True
        if error.code() == _END:
            return self._ends_before(offset, end)
        if error.code() in _GONE:
            self._begin_at(self._next or 0)
        elif error.code() != _NO_GROUP:
            raise self._clients.failure(KafkaException(error), f"topic {self.topic!r} cannot be read")
        return False

    def _ends_before(self, offset: int, end: int) -> bool:
        """Returns whether the partition has not grown since the consumer reached its end."""
        current = positions.ends(self._clients, [self.topic])[self.topic][self.partition]
        return current < end and offset >= current

    def _begin_at(self, start: int) -> None:
        """Handles an offset that is out of range: the response to an earlier request, or the topic was recreated."""
        first = positions.starts(self._clients, [self.topic])[self.topic][self.partition]
        if start < first:
            raise OffsetOutOfRangeError(
                f"partition {self.partition} of topic {self.topic!r} starts at offset {first}: the records from "
                f"{start} to {first - 1} are deleted",
                hint="they were deleted by retention, or the topic was recreated",
            )
        self._is_refused = True
        time.sleep(_WAITS[-1])
        self._consumer.assign([TopicPartition(self.topic, self.partition, start)])
        self._ahead = []

    def _silence(self) -> LogError:
        place = f"partition {self.partition} of topic {self.topic!r}"
        if not self._is_refused:
            return self._clients.silence(f"{place} cannot be read at offset {self._next}")
        return OffsetOutOfRangeError(
            f"{place} has no offset {self._next}: the topic was recreated, or its records are lost",
            hint="reset the application, so that it reads its input from the start: millstream reset",
        )


def _bytes(data: str | bytes | None) -> bytes | None:
    assert not isinstance(data, str)
    return data


def _offset(message: Message) -> int:
    return message.offset() or 0


def _size(message: Message) -> int:
    return len(message) + len(message.key() or b"")


def _fitting(messages: list[Message], end: int, size: int | None) -> list[Message]:
    """Returns the messages before an offset, up to the one that reaches the number of bytes."""
    if _offset(messages[-1]) >= end:
        messages = messages[: bisect_left(messages, end, key=_offset)]
    if size is not None:
        sizes = itertools.accumulate(map(_size, messages))
        messages = messages[: next((n for n, total in enumerate(sizes, 1) if total >= size), len(messages))]
    return messages


def _table(messages: list[Message]) -> pa.Table:
    """Returns a table with the columns of `millstream.log.api.SCHEMA`."""
    headers = [_headers(message) for message in messages]
    columns = [
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([message.timestamp()[1] for message in messages], pa.int64()),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array(headers, pa.binary()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _headers(message: Message) -> bytes | None:
    """Returns the headers of a message, encoded for `decode_headers`.

    The client fails if a name is not UTF-8. A second call would return a tuple without the name.
    """
    try:
        headers: Any = message.headers()
    except Exception as error:  # noqa: BLE001  (a SystemError, with the cause behind it)
        return encode_unreadable(f"{type(error).__name__}: {error.__cause__ or error}")
    return encode_headers(tuple(headers)) if headers else None
