"""The journal of an application: a topic that says which batch was the last one, and what is remembered.

It is compacted, and has two partitions. The first has a *marker* for each batch, written in the transaction of the
batch: whoever reads what is committed finds the last one at its end. The second has the small things that an
application remembers, by name, and the *epoch* of the instance that may write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from millstream.errors import UnknownTopicError
from millstream.log.api import Published
from millstream.log.kafka import positions, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.reading import Readers

MARKERS, MEMORY = 0, 1
BATCH = b"batch"
_EPOCH = b"epoch"
_STATE = b"state."
_TAIL = 8
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class _Marker(msgspec.Struct, array_like=True):
    """What a marker says."""

    batch: int
    fingerprints: dict[str, tuple[int, bytes]]
    offsets: list[tuple[str, int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Marker).decode


class Memory(NamedTuple):
    """What an application remembers.

    Attributes:
        epoch: That of the instance that may write, 0 if there was none yet.
        instance: A name of that instance, which no other has.
        state: Small things, by name.
    """

    epoch: int
    instance: str
    state: dict[str, bytes]


def name_of(application: str) -> str:
    """The topic of an application's journal."""
    return f"{application}-progress"


def make(clients: Clients, application: str, config: Mapping[str, str]) -> None:
    """Makes the journal, if it is not there, with what is said of all topics of applications."""
    try:
        topics.count_of(clients, name_of(application))
    except UnknownTopicError:
        topics.create(clients, name_of(application), 2, {**config, **_CONFIG})


def marker(published: Published) -> bytes:
    """The marker of a batch."""
    offsets = [(topic, partition, offset) for (topic, partition), offset in published.offsets.items()]
    return _encode(_Marker(published.batch, dict(published.fingerprints), offsets))


def epoch_record(epoch: int, instance: str) -> tuple[bytes, bytes]:
    """The key and value that say which instance may write."""
    return _EPOCH, f"{epoch} {instance}".encode("ascii")


def state_records(state: Mapping[str, bytes]) -> list[tuple[bytes, bytes]]:
    """The keys and values for things to remember."""
    return [(_STATE + name.encode(), value) for name, value in state.items()]


def last_batch(clients: Clients, readers: Readers, application: str) -> Published | None:
    """The last batch that was committed, if any."""
    topic = name_of(application)
    try:
        start, end = (
            positions.starts(clients, [topic])[topic][MARKERS],
            positions.ends(clients, [topic])[topic][MARKERS],
        )
    except UnknownTopicError:
        return None
    width = _TAIL
    while start < end:
        values = readers.read(topic, MARKERS, max(start, end - width), end)["value"]
        if len(values):
            found = _decode(values[-1].as_py())
            offsets = {(name, partition): offset for name, partition, offset in found.offsets}
            return Published(found.batch, found.fingerprints, offsets)
        if end - width <= start:
            break
        width *= 8
    return None


def memory(clients: Clients, readers: Readers, application: str) -> Memory:
    """What an application remembers."""
    topic = name_of(application)
    try:
        start, end = positions.starts(clients, [topic])[topic][MEMORY], positions.ends(clients, [topic])[topic][MEMORY]
    except UnknownTopicError:
        return Memory(0, "", {})
    table = readers.read(topic, MEMORY, start, end)
    last = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    state = {
        key.removeprefix(_STATE).decode(): value
        for key, value in last.items()
        if key.startswith(_STATE) and value is not None
    }
    epoch, _space, instance = (last.get(_EPOCH) or b"0").decode("ascii").partition(" ")
    return Memory(int(epoch), instance, state)
