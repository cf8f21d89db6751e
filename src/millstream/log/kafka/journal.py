"""The journal of a scope: a topic with its published batches, its epoch and its recorded state.

It is compacted, and has two partitions. The first has a *marker* for each batch, written in the transaction of the
batch, so its last committed record is the marker of the last batch. The second has the recorded state, by name, and the
*epoch* of the instance that can write. The journal of an application also lists all of its workers there: their
transactional ids are fenced when the application is acquired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException

from millstream.errors import UnknownTopicError
from millstream.log.api import Published, Scope
from millstream.log.kafka import positions, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.reading import Readers

MARKERS, MEMORY = 0, 1
BATCH = b"batch"
_EPOCH = b"epoch"
_STATE = b"state."
_WORKER = b"worker."
_TAIL = 8
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class _Marker(msgspec.Struct, array_like=True):
    """The value of a marker."""

    batch: int
    fingerprints: dict[str, tuple[int, bytes]]
    offsets: list[tuple[str, int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Marker).decode


class Memory(NamedTuple):
    """The content of the second partition.

    Attributes:
        epoch: The epoch of the instance that can write, 0 before the first one.
        instance: The unique name of that instance.
        state: The recorded state, by name.
        workers: In the journal of an application, the names of all workers that were ever acquired.
    """

    epoch: int
    instance: str
    state: dict[str, bytes]
    workers: list[str]


def name_of(scope: Scope) -> str:
    """Returns the topic of a journal. The dot keeps it apart from the journal of any application."""
    own = f"{scope.application}-progress"
    return own if scope.worker is None else f"{own}.{scope.worker}"


def create(clients: Clients, scope: Scope, config: Mapping[str, str]) -> None:
    """Creates the journal, if it does not exist, with the configuration of internal topics."""
    try:
        topics.count_of(clients, name_of(scope))
    except UnknownTopicError:
        topics.create(clients, name_of(scope), 2, {**config, **_CONFIG})


def register(clients: Clients, scope: Scope) -> None:
    """Adds a worker to the list in the journal of its application.

    It is no part of a transaction: an open one would hide the records of other workers behind it.
    """
    errors: list[KafkaError | None] = []
    producer = clients.plain_producer()
    producer.produce(
        name_of(Scope(scope.application)),
        b"",
        _WORKER + (scope.worker or "").encode(),
        MEMORY,
        on_delivery=lambda error, _message: errors.append(error),
    )
    producer.flush(clients.timeout)
    what = f"{scope} cannot be registered"
    if not errors:
        raise clients.silence(what)
    if errors[0] is not None:
        raise clients.failure(KafkaException(errors[0]), what)


def marker(published: Published) -> bytes:
    """Returns the marker of a batch."""
    offsets = [(topic, partition, offset) for (topic, partition), offset in published.offsets.items()]
    return _encode(_Marker(published.batch, dict(published.fingerprints), offsets))


def epoch_record(epoch: int, instance: str) -> tuple[bytes, bytes]:
    """Returns the record of the instance that can write."""
    return _EPOCH, f"{epoch} {instance}".encode("ascii")


def state_records(state: Mapping[str, bytes]) -> list[tuple[bytes, bytes]]:
    """Returns the records of entries of the state."""
    return [(_STATE + name.encode(), value) for name, value in state.items()]


def last_batch(clients: Clients, readers: Readers, scope: Scope) -> Published | None:
    """Returns the last committed batch, if any."""
    value = last_value(clients, readers, name_of(scope), MARKERS)
    if value is None:
        return None
    last = _decode(value)
    offsets = {(name, partition): offset for name, partition, offset in last.offsets}
    return Published(last.batch, last.fingerprints, offsets)


def last_value(clients: Clients, readers: Readers, topic: str, partition: int) -> bytes | None:
    """Returns the value of the last committed record of a partition; None if there is none."""
    try:
        start, end = (edges(clients, [topic])[topic][partition] for edges in (positions.starts, positions.ends))
    except UnknownTopicError:
        return None
    width = _TAIL
    while start < end:
        records = readers.pairs(topic, partition, max(start, end - width), end)
        if records:
            return records[-1][1]
        if end - width <= start:
            break
        width *= 8
    return None


def memory(clients: Clients, readers: Readers, scope: Scope) -> Memory:
    """Returns the content of the second partition of a journal."""
    topic = name_of(scope)
    try:
        start, end = positions.starts(clients, [topic])[topic][MEMORY], positions.ends(clients, [topic])[topic][MEMORY]
    except UnknownTopicError:
        return Memory(0, "", {}, [])
    last = {key: value for key, value in readers.pairs(topic, MEMORY, start, end) if key is not None}
    state = {
        key.removeprefix(_STATE).decode(): value
        for key, value in last.items()
        if key.startswith(_STATE) and value is not None
    }
    epoch, _space, instance = (last.get(_EPOCH) or b"0").decode("ascii").partition(" ")
    workers = sorted(key.removeprefix(_WORKER).decode() for key in last if key.startswith(_WORKER))
    return Memory(int(epoch), instance, state, workers)
