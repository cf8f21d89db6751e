"""What the parts of the runtime tell each other: read stage to task, task to commit, all packed with MessagePack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from millstream.engine.call_trace import CallPosition
from millstream.errors import LogError, MillstreamError
from millstream.state.paged import StoreSize
from millstream.text.escaping import trace_text

PIECE = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("order", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.binary()),
    ]
)
"""The columns of a piece. ``order`` is the greatest timestamp of the partition up to the record: see `ordering`."""


class Message(msgspec.Struct, array_like=True, frozen=True):
    """What all messages have in common: they are packed as arrays, fields in order."""


class Piece(Message, array_like=True, frozen=True):
    """Records of some partitions of a topic for one task.

    Attributes:
        topic: The topic.
        partitions: The partitions.
        counts: How many records each of them has.
        data: The records, partition by partition, as an Arrow batch with the schema `PIECE`.
    """

    topic: str
    partitions: list[int]
    counts: list[int]
    data: bytes


class End(Message, array_like=True, frozen=True):
    """Where a batch ends in a partition of a topic that has more records.

    Attributes:
        bound: The greatest timestamp of all records of the partition up to the end of this batch, for whichever task;
            None if it has none. No later record comes before one of a lower time.
    """

    topic: str
    partition: int
    bound: int | None


class Delivery(Message, array_like=True, frozen=True):
    """What the read stage gives to a task: the records of some partitions.

    What stores are rebuilt from comes before everything else, then the records of global tables.

    Attributes:
        ends: The partitions of the batch that have more records.
        everyone: All tasks have a delivery in this batch.
    """

    batch: int
    now: int
    ends: list[End]
    pieces: list[Piece]
    globals: list[Piece] = []
    restores: list[Piece] = []
    everyone: bool = True


class OutputBlock(Message, array_like=True, frozen=True):
    """Records for one partition of a topic, as the log keeps them; partition -1 if the topic is not known yet."""

    topic: str
    partition: int
    data: bytes
    count: int
    min_timestamp: int
    max_timestamp: int


class StoreChange(Message, array_like=True, frozen=True):
    """What changed in one store of one task, by column; ``time`` is the store's own."""

    store: str
    partition: int
    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]
    time: int | None


class Drop(Message, array_like=True, frozen=True):
    """How many records an operator dropped."""

    operator: str
    reason: str
    count: int


class Failure(Message, array_like=True, frozen=True):
    """An error that stops the application, as it was raised in a read stage or a task."""

    code: str
    message: str
    hint: str | None
    trace: str = ""


class Written(Message, array_like=True, frozen=True):
    """What one task, or the read stage of one partition, did in a batch.

    Attributes:
        origin: Where it comes from; outputs are written in this order: (0, topic, partition) or (1, "", task).
        offsets: (topic, partition, begin, end) that were read.
        due: When the wall clock is next waited for, None if it is not.
        waiting: How many records the task could not take yet.
        bounds: (topic, partition, time) of partitions that were read: no record that is still to come counts as
            earlier.
        printed: What the user's functions printed.
        figures: Measurements, by name.
        cells: What the operators of a task remember beside its stores.
        asleep: When a stream time would move next that nobody waits for, None if there is none.
        taken: How many records came to sources and repartitions, by the name of the operator.
        stores: How large the stores of a task are.
        awake: The task must run in the next batch even if that has no records for it: it holds records that it could
            not take yet, or it watches the wall clock.
    """

    origin: tuple[int, str, int]
    blocks: list[OutputBlock] = []
    changes: list[StoreChange] = []
    drops: list[Drop] = []
    offsets: list[tuple[str, int, int, int]] = []
    due: int | None = None
    waiting: int = 0
    printed: list[str] = []
    figures: dict[str, float] = {}
    cells: bytes = b""
    failure: Failure | None = None
    bounds: list[tuple[str, int, int]] = []
    asleep: int | None = None
    taken: dict[str, int] = {}
    stores: dict[str, StoreSize] = {}
    awake: bool = False


def earliest(times: Iterable[int | None]) -> int | None:
    """The first of some times, of which there may be none."""
    return min((time for time in times if time is not None), default=None)


def failure_of(error: MillstreamError) -> Failure:
    """An error as it travels to the driver, with the trace of what caused it."""
    cause = error.__cause__
    trace = "" if cause is None or isinstance(error, LogError) else trace_text(cause)
    return Failure(error.code, error.message, error.hint, trace)


# ----- between a proxy and its task host -------------------------------------------------------------------------


class Run(Message, tag=True, array_like=True, frozen=True):
    """Asks a host to run one batch of a task whose state has this token."""

    program: bytes
    task: int
    token: bytes
    deliveries: list[bytes]


class NeedProgram(Message, tag=True, array_like=True, frozen=True):
    """The host does not know the program yet."""


class ProgramData(Message, tag=True, array_like=True, frozen=True):
    """The program."""

    data: bytes


class Fetch(Message, tag=True, array_like=True, frozen=True):
    """The host wants values from Spark's state."""

    keys: list[bytes]


class Fetched(Message, tag=True, array_like=True, frozen=True):
    """The values, None where there is none."""

    values: list[bytes | None]


class Done(Message, tag=True, array_like=True, frozen=True):
    """The batch has run: what is to be written to Spark's state, and what goes to the commit, a list of `Written`."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    written: bytes


class ReadRanges(Message, tag=True, array_like=True, frozen=True):
    """Asks for a read stage: its ranges (`read.reader.Range`), the tasks of the batch (None: all), and the records, if
    Spark has read them.
    """

    program: bytes
    now: int
    ranges: list[tuple[str, int, int, int, bool, Sequence[tuple[str, int, int]]]]
    tasks: list[int] | None
    records: bytes | None


class RowsRead(Message, tag=True, array_like=True, frozen=True):
    """The rows of a read stage: (task, kind, payload)."""

    rows: list[tuple[int, int, bytes]]


class RunNoting(Message, tag=True, array_like=True, frozen=True):
    """Asks a process of its own to run something, and to note where it is; see `millstream.engine.call_trace`.

    ``refused`` has the places at which a function is not to be called, and why.
    """

    request: Run | ReadRanges
    refused: list[tuple[CallPosition, str]]


class Stop(Message, tag=True, array_like=True, frozen=True):
    """Asks a host to end."""


HostMessage: TypeAlias = (
    Run | ReadRanges | RunNoting | NeedProgram | ProgramData | Fetch | Fetched | Done | RowsRead | Stop
)

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
    found: M = decoder.decode(data)
    return found
