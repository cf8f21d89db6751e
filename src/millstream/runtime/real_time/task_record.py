"""Task records: the offsets and the cells of a task, committed with each publication of its worker.

The topic of task records has one partition for each task. The last committed record of a partition is the truth about
the progress of its task. The offsets of the consumer group follow it, for tools that show the lag.
"""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.errors import StateError, UnknownTopicError
from millstream.log.api import Log, Offsets
from millstream.runtime.order.positions import LEAST, Position

FORMAT = 1
"""Version of the records. Raise it with every change of the fields of `TaskRecord`."""

KEY = b"task"
"""The key of all task records: compaction keeps the last one of each partition."""

CONFIG = {"cleanup.policy": "compact"}
"""The configuration of the topic."""

_TAIL = 8


class TaskRecord(msgspec.Struct, array_like=True, frozen=True):
    """The progress and the state of a task outside its stores.

    Attributes:
        name: The name of the task's sub-topology, which does not depend on its number.
        partition: The partition number of the task.
        offsets: (topic, partition, offset): all records of an input before the offset were taken.
        taken: (topic, partition, sender, offset): the records of a sender before this offset were taken, too. Of an
            internal topic, a task takes the records of each sender in order, and a sender may be ahead of others.
        times: (topic, partition, time): the greatest timestamp of the records that were taken of an input topic.
        cells: The cells of the task's operators, by name.
        position: The greatest order position of the records that were taken.
        store_cells: The times of the task's stores, and other values that their changelogs do not tell.
    """

    name: str
    partition: int
    offsets: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    taken: list[tuple[str, int, int, int]] = msgspec.field(default_factory=list)
    times: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    cells: dict[str, Any] = msgspec.field(default_factory=dict)
    position: Position = LEAST
    store_cells: dict[str, Any] = msgspec.field(default_factory=dict)


class _Stored(msgspec.Struct, array_like=True):
    """The stored form of a task record.

    Attributes:
        format: The version of the record.
        record: The record.
        publication: (epoch, batch) of the publication that wrote it. No other publication has the same: a record tells
            whether its publication was committed.
    """

    format: int
    record: msgspec.Raw
    publication: tuple[int, int]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_stored = msgspec.msgpack.Decoder(_Stored).decode


def topic_of(application_id: str) -> str:
    """The topic of the task records of an application. No worker has the name at its end."""
    return f"{application_id}-progress.tasks"


def encode(record: TaskRecord, publication: tuple[int, int]) -> bytes:
    """Encodes a task record; *publication*: see `_Stored`."""
    return _encode(_Stored(FORMAT, msgspec.Raw(_encode(record)), publication))


def decode(data: bytes) -> TaskRecord:
    """Decodes a task record.

    Raises:
        StateError: It was written in another format.
    """
    stored = _decode_stored(data)
    if stored.format != FORMAT:
        raise StateError(
            f"a task record was written in format {stored.format}, and this version reads format {FORMAT}",
            hint="reset the application with 'millstream reset', or run the version that wrote it",
        )
    return _decode(stored.record)


def read_offsets(log: Log, application_id: str) -> Offsets:
    """Returns the least offset from which on a task reads each partition; nothing if the application has no tasks."""
    topic = topic_of(application_id)
    try:
        count = log.topic(topic).partitions
    except UnknownTopicError:
        return {}
    offsets: dict[tuple[str, int], int] = {}
    for record in (last_record(log, application_id, slot) for slot in range(count)):
        for name, partition, offset in () if record is None else record.offsets:
            offsets[name, partition] = min(offset, offsets.get((name, partition), offset))
    return offsets


def last_record(log: Log, application_id: str, partition: int) -> TaskRecord | None:
    """Returns the last committed record of a partition of the topic; None if there is none."""
    topic = topic_of(application_id)
    start, end = log.starts([topic])[topic][partition], log.ends([topic])[topic][partition]
    width = _TAIL
    while start < end:  # the partition may end in control records of transactions
        values = log.read(topic, partition, max(start, end - width), end)["value"]
        if len(values):
            last = values[-1].as_py()
            return None if last is None else decode(last)
        if end - width <= start:
            break
        width *= 8
    return None
