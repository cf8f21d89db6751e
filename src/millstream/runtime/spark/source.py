"""The source of the streaming query: plans batches on the driver, reads them in Spark's workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from millstream.errors import MillstreamError, RunError
from millstream.log.opening import open_location
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.control import Control
from millstream.runtime.batches.planner import Planner
from millstream.runtime.host.client import start_hosts
from millstream.runtime.host.crash_recovery import run_traced
from millstream.runtime.host.protocol import ProgramData, ReadRanges, RowsRead
from millstream.runtime.messages import TaskResult, failure_of, pack
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.program.program import unpack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.reader import RESULT, Reader, Row
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.worker import begin_task, executor
from millstream.runtime.user_code.user_output import log_like

SCHEMA = "slot bigint, kind int, payload binary"
_ARROW = pa.schema([("slot", pa.int64()), ("kind", pa.int32()), ("payload", pa.binary())])


class Before(NamedTuple):
    """Facts about the query that ran before.

    Attributes:
        skipped: End of a batch that was begun and must not be read again.
        suspect: The query was lost, perhaps because its workers crashed in the batch that comes first now.
    """

    skipped: BatchEnd | None = None
    suspect: bool = False


class Settings(NamedTuple):
    """Settings of the source; Spark sends them to its workers with every batch."""

    program: ShippedProgram
    control: str
    first: BatchEnd
    readers: int
    slots: list[int]
    run: str
    hosts: int
    before: Before = Before()


class MillstreamSource(DataSource):
    """The records that an application reads, dealt to its tasks."""

    settings: Settings

    @classmethod
    def name(cls) -> str:
        """The format's name: each run has a source of its own."""
        return f"millstream-{cls.settings.run}"

    def schema(self) -> str:
        """One row for the input of each task in a batch, and rows for results that need no task."""
        return SCHEMA

    def streamReader(self, schema: Any) -> MillstreamReader:  # noqa: N802
        """Returns the reader."""
        return MillstreamReader(self.settings)


def source_for(settings: Settings) -> type[MillstreamSource]:
    """Returns a class for these settings: Spark identifies a source by its class."""
    return type("MillstreamSource", (MillstreamSource,), {"settings": settings, "__module__": "__main__"})


class Part(InputPartition):
    """The ranges that one worker reads of a batch; ``suspect``: a worker may have crashed on them before."""

    def __init__(
        self,
        now: int,
        ranges: list[Range],
        tasks: list[int] | None = None,
        *,
        order: BatchOrder = NO_ORDER,
        suspect: bool = False,
    ) -> None:
        super().__init__(None)
        self.order = order
        self.now = now
        self.ranges = ranges
        self.tasks = tasks
        self.suspect = suspect


class MillstreamReader(DataSourceStreamReader):
    """Plans batches and reads them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._planner: Planner | None = None
        self._suspect = settings.before.suspect

    def __getstate__(self) -> dict[str, Any]:
        return {"_settings": self._settings, "_planner": None, "_suspect": self._suspect}

    @property
    def planner(self) -> Planner:
        """The planner. It exists on the driver only."""
        if self._planner is None:
            control = Control(Path(self._settings.control))
            try:
                program = unpack_program(self._settings.program.open())
                log, settings = open_location(program.log, create=False), self._settings
                self._planner = Planner(program, log, control, settings.first, skipped=settings.before.skipped)
            except MillstreamError as error:
                control.fail(error)
                raise
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Start of the first batch, in the form of Spark's offset log."""
        return self.planner.first().to_plain()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """End of the next batch; the planner limits it better than a fixed number of records."""
        return self.planner.next(self._end(start)).to_plain()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Distributes the ranges of a batch to workers: whole partitions, with about as many records each."""
        last = self._end(end)
        ranges = self.planner.ranges(self._end(start), last)
        count = max(1, min(self._settings.readers, len(ranges)))
        parts: list[list[Range]] = [[] for _ in range(count)]
        sizes = [0] * count
        for span in sorted(ranges, key=lambda r: r.start - r.end):
            least = sizes.index(min(sizes))
            parts[least].append(span)
            sizes[least] += span.end - span.start
        suspect, self._suspect = self._suspect, False
        return [Part(last.time, sorted(part), last.tasks, order=last.order, suspect=suspect) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the ranges of one worker."""
        assert isinstance(partition, Part)
        begin_task()
        now, ranges, tasks = partition.now, partition.ranges, partition.tasks
        rows = rows_for(self._settings, now, ranges, tasks, partition.order, suspect=partition.suspect)
        yield from packed_rows(rows, self._settings.slots)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the driver commits a batch."""

    def _end(self, plain: dict[str, Any]) -> BatchEnd:
        """Reads an entry of Spark's offset log. An entry of another version is a failure that the driver reports."""
        try:
            return BatchEnd.from_plain(plain)
        except MillstreamError as error:
            Control(Path(self._settings.control)).fail(error)
            raise


def packed_rows(rows: Iterable[Row], slots: list[int]) -> Iterator[pa.RecordBatch]:
    """Packs rows of a read stage into Arrow batches."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row.payload)
        if size >= _BATCH_BYTES:
            yield _packed(chunk, slots)
            chunk, size = [], 0
    if chunk:
        yield _packed(chunk, slots)


def _packed(rows: Sequence[Row], slots: list[int]) -> pa.RecordBatch:
    kinds = pa.array([row.kind for row in rows], pa.int32())
    return pa.record_batch([[slots[row.task] for row in rows], kinds, [row.payload for row in rows]], schema=_ARROW)


_BATCH_BYTES = 4 * 1024 * 1024
_MOST = 8
_EXIT_SECONDS = 5.0
_readers: dict[bytes, Reader] = {}


def rows_for(
    settings: Settings,
    now: int,
    ranges: list[Range],
    tasks: list[int] | None,
    order: BatchOrder,
    records: pa.Table | None = None,
    *,
    suspect: bool = False,
) -> Iterator[Row]:
    """The rows of a read stage; see `Reader.read`. A module that the program lacks here is a failure in a row.

    If a worker may have crashed on the same ranges, a traced process reads them, which can name the cause of a crash.
    """
    context = TaskContext.get()
    if suspect or (context is not None and context.attemptNumber() > 0):
        yield from _rows_traced(settings, now, ranges, tasks, order, records)
        return
    try:
        reader = _reader_for(settings)
    except RunError as error:  # of the program: those of the log may pass
        yield Row(0, RESULT, pack([TaskResult((0, "", 0), failure=failure_of(error))]))
        return
    yield from reader.read(now, ranges, records, tasks, order)
    if reader.is_stuck:
        # A thread in user code cannot be ended. The worker must not be used again.
        timer = threading.Timer(_EXIT_SECONDS, os._exit, [1])
        timer.daemon = True
        timer.start()


def _rows_traced(
    settings: Settings,
    now: int,
    ranges: list[Range],
    tasks: list[int] | None,
    order: BatchOrder,
    records: pa.Table | None,
) -> Iterator[Row]:
    control = Control(Path(settings.control))
    topics = ", ".join(sorted({span.topic for span in ranges})) or "no topic"
    what = f"the read stage of {topics}"
    control.report_retry(f"{what} was lost; running it again")
    data = None if records is None else stream_of(records)
    request = ReadRanges(settings.program.digest, now, [(*span,) for span in ranges], tasks, data, order)
    try:
        outcome = run_traced(what, request, lambda _message: ProgramData(settings.program.open()), control.report_retry)
    except RunError as error:
        yield Row(0, RESULT, pack([TaskResult((0, "", 0), failure=failure_of(error))]))
        return
    assert isinstance(outcome, RowsRead)
    yield from (Row(*row) for row in outcome.rows)


def stream_of(records: pa.Table) -> bytes:
    """Encodes a table in the stream format of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_table(records)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _reader_for(settings: Settings) -> Reader:
    """The reader of a program, made once in each worker."""
    reader = _readers.get(settings.program.digest)
    if reader is None:
        loaded = unpack_program(settings.program.open())
        log_like(loaded.logging)
        if loaded.placement.tasks:
            start_hosts(settings.run, executor(), settings.hosts)
        while len(_readers) >= _MOST:
            del _readers[next(iter(_readers))]
        reader = _readers[settings.program.digest] = Reader(loaded, open_location(loaded.log, create=False))
    return reader
