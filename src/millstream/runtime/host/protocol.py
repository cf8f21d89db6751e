"""The protocol between a Spark worker and a task host, which may request the program and state while it works."""

from __future__ import annotations

from typing import TypeAlias

from millstream.engine.call_trace import CallPosition
from millstream.runtime.messages import Message
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.positions import Position


class Run(Message, tag=True, array_like=True, frozen=True):
    """Requests that a host runs one batch of a task.

    Attributes:
        program: The digest of the program.
        task: The task's number.
        token: The token of the task's state in Spark.
        inputs: The packed `TaskInput` of each read stage.
    """

    program: bytes
    task: int
    token: bytes
    inputs: list[bytes]


class NeedProgram(Message, tag=True, array_like=True, frozen=True):
    """The host requests the program, which it has not loaded."""


class ProgramData(Message, tag=True, array_like=True, frozen=True):
    """The program."""

    data: bytes


class Fetch(Message, tag=True, array_like=True, frozen=True):
    """The host requests values of Spark's state."""

    keys: list[bytes]


class Fetched(Message, tag=True, array_like=True, frozen=True):
    """The values, in the order of the keys; None for a key without a value."""

    values: list[bytes | None]


class Done(Message, tag=True, array_like=True, frozen=True):
    """The batch has run.

    Attributes:
        puts: Entries to write to Spark's state.
        deletes: Keys to delete from it.
        results: A packed list of `TaskResult`, for the commit.
    """

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    results: bytes


class ReadRanges(Message, tag=True, array_like=True, frozen=True):
    """Requests a read stage.

    Attributes:
        program: The digest of the program.
        now: The time of the batch.
        ranges: The ranges to read (`millstream.runtime.read.inputs.Range`).
        tasks: The tasks that run even without input; None: all.
        records: The records, if Spark has read them.
        order: How far tasks go.
    """

    program: bytes
    now: int
    ranges: list[tuple[str, int, int, int, bool, Position | None, int]]
    tasks: list[int] | None
    records: bytes | None
    order: BatchOrder


class RowsRead(Message, tag=True, array_like=True, frozen=True):
    """The rows of a read stage: (task, kind, payload)."""

    rows: list[tuple[int, int, bytes]]


class RunTraced(Message, tag=True, array_like=True, frozen=True):
    """Requests that a separate process runs a request and records the current call: see `millstream.engine.call_trace`.

    Attributes:
        request: The request.
        refused: The calls that ended a process before, and why: the function is not called there.
    """

    request: Run | ReadRanges
    refused: list[tuple[CallPosition, str]]


class Stop(Message, tag=True, array_like=True, frozen=True):
    """Requests that a host ends."""


HostMessage: TypeAlias = (
    Run | ReadRanges | RunTraced | NeedProgram | ProgramData | Fetch | Fetched | Done | RowsRead | Stop
)
