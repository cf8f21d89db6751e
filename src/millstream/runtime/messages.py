"""Messages between the read stage, the tasks and the commit, packed with MessagePack."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from millstream.core.process_memory import resident_bytes
from millstream.errors import LogError, MillstreamError
from millstream.runtime.order import positions
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.order.positions import Position
from millstream.stages.task_id import TaskId
from millstream.state.paged import StoreSize
from millstream.text.escaping import trace_text

_SAMPLE = 8

INPUT_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("position", positions.ARROW, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.binary()),
    ]
)
"""The columns of an input slice. ``position`` is the record's order position."""


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Base of all messages: packed as an array, fields in order."""


class InputSlice(Message, array_like=True, frozen=True):
    """Records of one topic for one task.

    Attributes:
        topic: The topic.
        partitions: The partitions that have records in the slice.
        counts: The number of records of each of these partitions.
        data: The records, partition by partition, as an Arrow batch with the schema `INPUT_SCHEMA`.
        batch: The batch that read their origins, or a later one, in a slice that waits in the memory of a task.
    """

    topic: str
    partitions: list[int]
    counts: list[int]
    data: bytes
    batch: int = 0


class InputBound(Message, array_like=True, frozen=True):
    """The end of a batch in a partition whose log has more records.

    Attributes:
        bound: The least order position that a record after the batch can have; None if it is not known.
    """

    topic: str
    partition: int
    bound: Position | None


class TaskInput(Message, array_like=True, frozen=True):
    """The records that the read stage of some partitions routes to a task.

    The task applies ``restores`` first, then ``globals``, then ``slices``.

    Attributes:
        now: The time of the batch.
        bounds: The partitions of the batch whose log has more records.
        slices: Records of the task's inputs.
        globals: Records of global tables.
        restores: Records of changelogs, from which stores are restored.
        all_tasks: Every task has an input in this batch.
        order: How far the tasks go.
    """

    now: int
    bounds: list[InputBound]
    slices: list[InputSlice]
    globals: list[InputSlice] = []
    restores: list[InputSlice] = []
    all_tasks: bool = True
    order: BatchOrder = NO_ORDER


class OutputBlock(Message, array_like=True, frozen=True):
    """Records for one partition of a topic, encoded as the log stores them; partition -1 if the topic is unknown.

    ``sample`` has the timestamps of a few of the records, for the metrics.
    """

    topic: str
    partition: int
    data: bytes
    count: int
    min_timestamp: int
    max_timestamp: int
    sample: list[int] = []


class StoreChange(Message, array_like=True, frozen=True):
    """The changes of one store in one task, by column; ``time`` is the store's own stream time."""

    store: str
    partition: int
    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]
    time: int | None


class Drop(Message, array_like=True, frozen=True):
    """The number of records that an operator dropped, by reason."""

    operator: str
    reason: str
    count: int


class StreamTime(Message, array_like=True, frozen=True):
    """The stream time of a task of a sub-topology: the greatest timestamp that it has taken."""

    subtopology: int
    partition: int
    time: int


class Failure(Message, array_like=True, frozen=True):
    """An error, raised in a read stage or a task, that stops the application."""

    code: str
    message: str
    hint: str | None
    trace: str = ""


class TaskProgress(Message, array_like=True, frozen=True):
    """The progress of one task in a batch.

    Attributes:
        task: The task.
        due: The next wall-clock time at which a punctuator is due, if any.
        asleep: Earliest wall-clock time at which an idle stream clock would advance with nothing to emit, if any.
        waiting: The number of records that the task has received and not yet taken.
        held: The least order position of these records, if there are any.
        awake: The task must run in the next batch even without input: it has waiting records or wall-clock punctuators.
        taken: The number of records taken of each source and repartition, by operator name.
    """

    task: TaskId
    due: int | None = None
    asleep: int | None = None
    waiting: int = 0
    awake: bool = False
    taken: dict[str, int] = {}
    held: Position | None = None


class TaskResult(Message, array_like=True, frozen=True):
    """The results, in a batch, of the tasks of one partition number, or of the read stage of one partition.

    Attributes:
        origin: (0, topic, partition) of a read stage or (1, "", number) of tasks. The commit writes outputs in this
            order.
        offsets: (topic, partition, begin, end) of the ranges read.
        printed: Lines that user functions printed.
        figures: Measurements, by name.
        cells: The operators' state outside stores.
        bounds: (topic, partition, position) of partitions read: no unread record has a lower order position.
        read: The number of records read by the sources of the stateless prefix, by operator name.
        stores: The sizes of the tasks' stores.
        tasks: The progress of each task.
        changed: The number of changed rows of each store with a view, in results without *changes*: workers publish
            the rows themselves.
        times: The stream times of the tasks.
    """

    origin: tuple[int, str, int]
    blocks: list[OutputBlock] = []
    changes: list[StoreChange] = []
    drops: list[Drop] = []
    offsets: list[tuple[str, int, int, int]] = []
    printed: list[str] = []
    figures: dict[str, float] = {}
    cells: bytes = b""
    failure: Failure | None = None
    bounds: list[tuple[str, int, Position]] = []
    read: dict[str, int] = {}
    stores: dict[str, StoreSize] = {}
    tasks: list[TaskProgress] = []
    changed: dict[str, int] = {}
    times: list[StreamTime] = []

    @property
    def number(self) -> int | None:
        """The partition number of the tasks; None for a read stage."""
        return self.origin[2] if self.origin[0] else None

    @property
    def due(self) -> int | None:
        """The next wall-clock time at which a punctuator of a task is due, if any."""
        return earliest(task.due for task in self.tasks)

    @property
    def asleep(self) -> int | None:
        """The earliest `TaskProgress.asleep`, if any."""
        return earliest(task.asleep for task in self.tasks)

    @property
    def waiting(self) -> int:
        """The number of records that the tasks have received and not yet taken."""
        return sum(task.waiting for task in self.tasks)

    @property
    def awake(self) -> bool:
        """Whether a task must run in the next batch even without input."""
        return any(task.awake for task in self.tasks)

    @property
    def taken(self) -> dict[str, int]:
        """The number of records taken of each source and repartition, by operator name."""
        taken = dict(self.read)
        for task in self.tasks:
            taken |= task.taken
        return taken


def earliest(times: Iterable[int | None]) -> int | None:
    """The least of the times that are not None; None if there is none."""
    return min((time for time in times if time is not None), default=None)


def failure_of(error: MillstreamError) -> Failure:
    """An error as a message to the driver, with the traceback of its cause."""
    cause = error.__cause__
    trace = "" if cause is None or isinstance(error, LogError) else trace_text(cause)
    return Failure(error.code, error.message, error.hint, trace)


def process_figures() -> dict[str, float]:
    """Figures of this process, for `TaskResult.figures`: its id, and its memory in bytes."""
    return {"process.id": float(os.getpid()), "process.memory": float(resident_bytes())}


def sample_of(timestamps: Sequence[int]) -> list[int]:
    """The timestamps of a few records of a block, at equal distances.

    >>> sample_of(range(100))
    [0, 13, 26, 39, 52, 65, 78, 91]
    """
    return list(timestamps[:: -(-len(timestamps) // _SAMPLE) or 1])


M = TypeVar("M")
_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def pack(message: Any) -> bytes:
    """Packs a message."""
    return _encoder.encode(message)


def unpack(data: bytes | memoryview, kind: type[M]) -> M:
    """Unpacks a message of a kind."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    message: M = decoder.decode(data)
    return message
