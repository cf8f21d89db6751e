"""The inputs of a task: one queue for each topic partition.

A task takes the record with the lowest timestamp at the head of its queue first; equal timestamps are ordered as in
Kafka Streams (see `millstream.engine.heap`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from millstream.core.durations import END_OF_TIME
from millstream.core.records import Headers, UnreadableHeaders
from millstream.engine.errors import FAILURES, Fatal
from millstream.errors import DeserializationError, RecordReadError
from millstream.plan.sources import GlobalTable, Source, Timestamps
from millstream.plan.stateless import Repartition
from millstream.serde.api import reader

if TYPE_CHECKING:
    from millstream.engine.compile import Process
    from millstream.engine.context import TaskContext

Entry: TypeAlias = tuple[int, Any, Any, Any, int, "InputRecord | None"]
"""Timestamp, key, value, headers, offset, and the serialized record, if the queue has it."""


class InputRecord(NamedTuple):
    """A record of a topic partition, serialized, as it goes into a task."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Columns(NamedTuple):
    """Records of a topic partition, by column; ``headers`` may be `repeat(())` if no record has headers."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Iterable[Headers]


class Queue:
    """The queued records of one topic partition.

    Attributes:
        process: Processes a record.
        find: Returns the serialized record of an offset, for a host that gives columns to `Task.take`.
    """

    __slots__ = (
        "_context",
        "_deserialized",
        "_extract",
        "_plain_time",
        "_uses_headers",
        "entries",
        "find",
        "node",
        "partition",
        "process",
        "topic",
    )

    def __init__(
        self,
        node: Source | Repartition | GlobalTable,
        topic: str,
        partition: int,
        process: Process,
        context: TaskContext,
    ) -> None:
        self.topic = topic
        self.partition = partition
        trace = context.call_trace
        self.process = process if trace is None else trace.trace_processing(self, context, process)
        self.entries: deque[Entry] = deque()
        self.find: Callable[[int], InputRecord] | None = None
        self.node = node
        self._context = context
        self._uses_headers = node.key.uses_headers or node.value.uses_headers
        self._deserialized = _deserializer(node)
        timestamps = Timestamps() if isinstance(node, Repartition) else node.timestamps
        self._plain_time = timestamps.source == "record" and timestamps.on_invalid != "partition_time"
        partition_time = [-1]
        if timestamps.source == "function" or timestamps.on_invalid == "partition_time":
            # Only where it is used: a task may read thousands of partitions, and each cell is stored with the state.
            partition_time = context.cell(node, f"partition-time.{topic}.{partition}", -1)
        self._extract = _extractor(timestamps, partition_time, context)

    @property
    def extracts(self) -> bool:
        """Whether a function extracts the times of records."""
        return isinstance(self.node, Source) and self.node.timestamps.function is not None

    def add(self, records: Iterable[InputRecord]) -> None:
        """Deserializes records and appends them; records that cannot be read go to the error handler."""
        trace = self._context.call_trace
        for record in records if trace is None else trace.trace_reading(self, records):
            try:
                _check_readable(record)
                key, value = self._deserialized(record)
            except FAILURES as error:
                self._context.read_failure(self.node, self.topic, self.partition, record, error)
                continue
            self._append(record, key, value)

    def read(self, columns: Columns) -> tuple[Sequence[Entry], dict[int, Process]]:
        """Deserializes columns of records.

        Returns:
            An entry for each record, and, by index, the process of each record that cannot be read or has no valid
            time: its error is handled in its turn, after the records before it.
        """
        offsets, timestamps, keys, values, headers = columns
        trace = self._context.call_trace
        read = self.read_all(columns) if trace is None else None
        if read is not None:
            return list(zip(timestamps, *read, headers, offsets, repeat(None))), {}
        entries: list[Entry] = []
        failures: dict[int, Process] = {}
        records: Iterable[InputRecord] = map(InputRecord, offsets, timestamps, keys, values, headers)
        for record in records if trace is None else trace.trace_reading(self, records):
            failed: Process | None = None
            key = value = time = None
            try:
                _check_readable(record)
                key, value = self._deserialized(record)
                time = self._extract(record.timestamp, key, value)
            except FAILURES as error:
                failed = self._failed(record, error)
            else:
                if time is None or time < 0:
                    failed = self._untimed(record, time)
            if failed is not None:
                failures[len(entries)] = failed
            entries.append((time or 0, key, value, record.headers, record.offset, record))
        return entries, failures

    def read_all(self, columns: Columns) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Returns the keys and the values; None if a record cannot be read, or has no valid time of its own."""
        if not self._plain_time or (columns.timestamps and min(columns.timestamps) < 0):
            return None
        if isinstance(columns.headers, list) and UnreadableHeaders in set(map(type, columns.headers)):
            return None
        if self._uses_headers and isinstance(columns.headers, list) and any(columns.headers):
            return None
        try:
            return self.node.key.deserialize_all(columns.keys), self.node.value.deserialize_all(columns.values)
        except FAILURES:
            return None

    def _failed(self, record: InputRecord, error: BaseException) -> Process:
        def process(*_record: Any) -> None:
            self._context.read_failure(self.node, self.topic, self.partition, record, error)

        return process

    def _untimed(self, record: InputRecord, time: int | None) -> Process:
        drop = self._context.drop(self.node, "invalid timestamp")

        def process(key: Any, value: Any, _time: int, headers: Headers) -> None:
            if time is not None:
                raise Fatal(_invalid_time(self, record))
            drop(key, value, record.timestamp, headers)

        return process

    def _append(self, record: InputRecord, key: Any, value: Any) -> None:
        """Appends a deserialized record; a record without a valid time is dropped, or an error."""
        try:
            time = self._extract(record.timestamp, key, value)
        except FAILURES as error:
            self._context.read_failure(self.node, self.topic, self.partition, record, error)
            return
        if time is None:
            self._context.drop(self.node, "invalid timestamp")(key, value, record.timestamp, record.headers)
        elif time < 0:
            raise Fatal(_invalid_time(self, record))
        else:
            self.entries.append((time, key, value, record.headers, record.offset, record))


def _deserializer(node: Source | Repartition | GlobalTable) -> Callable[[InputRecord], tuple[Any, Any]]:
    """Returns the function that deserializes the key and the value of a record."""
    if node.key.uses_headers or node.value.uses_headers:
        key_of, value_of = reader(node.key), reader(node.value)
        return lambda record: (key_of(record.key, record.headers), value_of(record.value, record.headers))
    read_key, read_value = node.key.deserialize, node.value.deserialize
    return lambda record: (read_key(record.key), read_value(record.value))


def _check_readable(record: InputRecord) -> None:
    if type(record.headers) is UnreadableHeaders:
        raise DeserializationError(f"the headers cannot be read: {record.headers.reason}")


def _extractor(
    timestamps: Timestamps, partition_time: list[int], context: TaskContext
) -> Callable[[int, Any, Any], int | None]:
    """Returns the function that extracts the time of a record: None drops the record, a negative time is an error.

    The partition time is the greatest time of the records before; it is maintained only where it is used.
    """
    if timestamps.source == "wall_clock":
        return lambda _time, _key, _value: context.now
    if timestamps.source == "record" and timestamps.on_invalid == "fail":
        return lambda time, _key, _value: time
    if timestamps.source == "record" and timestamps.on_invalid == "skip":
        return lambda time, _key, _value: None if time < 0 else time
    if timestamps.source == "record":

        def previous(time: int, _key: Any, _value: Any) -> int:
            if time < 0:
                return partition_time[0]
            partition_time[0] = max(partition_time[0], time)
            return time

        return previous
    assert timestamps.function is not None
    function, count = timestamps.function.full(), len(timestamps.function.roles)

    def computed(time: int, key: Any, value: Any) -> int | None:
        extracted = function(*(key, value, time, partition_time[0])[:count])
        if extracted is None or extracted < 0:
            return None
        if extracted > END_OF_TIME:
            raise DeserializationError(
                f"the timestamp function returned {extracted!r}, which is not a timestamp",
                hint="a timestamp is an int from 0 to 2**63 - 1, in milliseconds since the epoch",
            )
        partition_time[0] = max(partition_time[0], int(extracted))
        return int(extracted)

    return computed


def _invalid_time(queue: Queue, record: InputRecord) -> RecordReadError:
    return RecordReadError(
        f"topic {queue.topic}, partition {queue.partition}, offset {record.offset}: "
        f"the timestamp {record.timestamp} is not valid",
        hint="on_invalid_timestamp='skip' drops such records, 'partition_time' gives them the latest time before",
    )
