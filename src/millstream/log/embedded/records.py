"""Records of partitions: appending blocks and reading ranges of offsets.

The rows of a partition cover its offsets from start to end without gaps. Compaction leaves gaps within rows, never
between them, so a lost row is detected.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from millstream.core.failpoints import declare, reach
from millstream.errors import CorruptLogError, OffsetOutOfRangeError, RecordRefusedError
from millstream.log.api import SCHEMA, Append, Stored
from millstream.log.arrays import from_integers
from millstream.log.blocks import SCHEMA as BLOCK_SCHEMA, Block, as_block, decode, facts
from millstream.log.embedded.checksums import checksum, verify
from millstream.log.embedded.topics import Head, StoredTopic, find, head, set_head

AFTER_INSERT = declare("log.append.after-insert")

# Tables of many small chunks are slow. Below this number of records per chunk, combining them is worth the copy.
_SMALL_CHUNK = 512

_COLUMNS = (
    "base, next, count, min_timestamp, max_timestamp, append_timestamp, tombstones_until, size, data, data_checksum, "
    "offsets, checksum"
)
_INSERT = "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Starts with the block that contains the first offset.
_RANGE = """
    FROM blocks WHERE topic = :topic AND partition = :partition AND base < :end AND base >= coalesce((
        SELECT max(base) FROM blocks WHERE topic = :topic AND partition = :partition AND base <= :start), :start)
    ORDER BY base
"""

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class BlockRow(NamedTuple):
    """The row of a block.

    Attributes:
        base: The first offset that it covers.
        next: The offset after the last one.
        count: The number of records: less than that of offsets, once compaction has removed some.
        min_timestamp: The least timestamp of its records.
        max_timestamp: The greatest one.
        append_timestamp: The timestamp of all its records if the topic had log-append time, else None.
        tombstones_until: When compaction may delete the tombstones that it has seen; None if it has seen none.
        size: The size of the block.
        data: The id of the block in `block_data`.
        data_checksum: The block's own checksum.
        offsets: The offset of each record relative to `base`, as 32-bit numbers; None if there are no gaps.
        checksum: The checksum of this row.
    """

    base: int
    next: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    min_timestamp: int
    max_timestamp: int
    append_timestamp: int | None = None
    tombstones_until: int | None = None
    size: int = 0
    data: int = 0
    data_checksum: int = 0
    offsets: bytes | None = None
    checksum: int = 0


class Appender:
    """Appends blocks within one transaction.

    Args:
        connection: A connection that is in a write transaction.
        now: The log-append time.
    """

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self._topics: dict[str, StoredTopic] = {}
        self._heads: dict[tuple[str, int], Head] = {}

    def _topic(self, name: str) -> StoredTopic:
        if name not in self._topics:
            self._topics[name] = find(self._connection, name)
        return self._topics[name]

    def append(self, append: Append) -> int:
        """Appends a block and returns its base offset. A block without records is not stored."""
        topic, partition, block = self._topic(append.topic), append.partition, as_block(append.block)
        at = append.topic, partition
        if at not in self._heads:
            topic.topic.check_partition(partition)
            self._heads[at] = head(self._connection, topic, partition)
        start, base = self._heads[at]
        if block.count:
            _check(topic, block)
            append_timestamp = None
            if topic.settings.append_time:
                append_timestamp = self._now
                block = block._replace(min_timestamp=self._now, max_timestamp=self._now)
            row = BlockRow(
                base=base,
                next=base + block.count,
                count=block.count,
                min_timestamp=block.min_timestamp,
                max_timestamp=block.max_timestamp,
                append_timestamp=append_timestamp,
                size=len(block.data),
            )
            insert(self._connection, topic, partition, row, block.data)
            self._heads[at] = Head(start, row.next)
        return base

    def finish(self) -> None:
        """Moves the ends of the partitions. Appended blocks can be read only after this call."""
        reach(AFTER_INSERT)
        for (name, partition), moved in self._heads.items():
            set_head(self._connection, self._topics[name], partition, moved)


def encoded(appends: Iterable[Append]) -> list[Append]:
    """Returns appends whose columns are encoded as blocks, which takes a while: do it before the transaction begins."""
    return [append._replace(block=as_block(append.block)) for append in appends]


def append_all(connection: sqlite3.Connection, appends: Iterable[Append], now: int) -> list[int]:
    """Appends blocks and returns their base offsets."""
    appender = Appender(connection, now)
    bases = [appender.append(append) for append in appends]
    appender.finish()
    return bases


def _check(topic: StoredTopic, block: Block) -> None:
    null_key, largest = facts(block.data)
    if largest > topic.settings.max_message_bytes:
        limit = topic.settings.max_message_bytes
        message = f"a record for topic {topic.name!r} has {largest} bytes; at most {limit} are allowed"
        raise RecordRefusedError(message, hint="max.message.bytes of the topic's configuration allows more")
    if null_key and topic.settings.compact:
        message = f"a record for topic {topic.name!r} has no key, but the topic is compacted"
        raise RecordRefusedError(message, hint="compaction keeps the last record of each key, so each must have one")
    if block.min_timestamp < 0 and not topic.settings.append_time:
        raise RecordRefusedError(f"a record for topic {topic.name!r} has a negative timestamp: {block.min_timestamp}")


def insert(connection: sqlite3.Connection, topic: StoredTopic, partition: int, row: BlockRow, data: bytes) -> None:
    """Writes a block and its row, whose `data` and checksums are set here."""
    number = connection.execute("INSERT INTO block_data (data) VALUES (?)", (data,)).lastrowid
    assert number is not None
    row = row._replace(data=number, data_checksum=int.from_bytes(data[4:8], "little"))
    row = row._replace(checksum=checksum(topic.id, partition, *row[:-1]))
    connection.execute(_INSERT, (topic.id, partition, *row))


def delete(connection: sqlite3.Connection, topic: StoredTopic, partition: int, rows: Iterable[BlockRow]) -> None:
    """Deletes blocks and their rows."""
    for row in rows:
        connection.execute("DELETE FROM block_data WHERE id = ?", (row.data,))
        statement = "DELETE FROM blocks WHERE topic = ? AND partition = ? AND base = ?"
        connection.execute(statement, (topic.id, partition, row.base))


def rows(
    connection: sqlite3.Connection, topic: StoredTopic, partition: int, start: int, end: int
) -> Generator[BlockRow]:
    """Yields the rows that cover a range of offsets, in order, without their blocks."""
    if start >= end:
        return
    values = {"topic": topic.id, "partition": partition, "start": start, "end": end}
    with contextlib.closing(connection.execute(f"SELECT {_COLUMNS} {_RANGE}", values)) as cursor:
        edge = None
        for columns in cursor:
            row = BlockRow(*columns)
            verify(_place(topic, partition, row.base), row.checksum, topic.id, partition, *row[:-1])
            if edge is not None and edge != row.base:
                raise _gap(topic, partition, edge)
            edge = row.next
            if edge > start:
                yield row


def sizes(connection: sqlite3.Connection, topic: StoredTopic) -> list[Stored]:
    """Returns the size of each partition of a topic."""
    return [size(connection, topic, partition) for partition in range(topic.topic.partitions)]


def size(connection: sqlite3.Connection, topic: StoredTopic, partition: int) -> Stored:
    """Returns the size of a partition.

    Raises:
        CorruptLogError: A row is damaged or lost.
    """
    edges = head(connection, topic, partition)
    records = stored = 0
    edge = edges.start
    for row in rows(connection, topic, partition, edges.start, edges.next):
        if row.base > edge:
            raise _gap(topic, partition, edge)
        edge = row.next
        records += row.count
        stored += row.size
    if edge < edges.next:
        raise _gap(topic, partition, edge)
    return Stored(records, stored)


def load(connection: sqlite3.Connection, topic: StoredTopic, partition: int, row: BlockRow) -> pa.RecordBatch:
    """Returns the records of a row, with the columns of a block.

    Raises:
        CorruptLogError: The block is damaged, or does not belong to the row.
    """
    stored = connection.execute("SELECT data FROM block_data WHERE id = ?", (row.data,)).fetchone()
    place = f"topic {topic.name!r}, partition {partition}, offsets {row.base} to {row.next - 1}"
    if stored is None or not isinstance(stored[0], bytes):
        raise CorruptLogError(f"the records of {place} are missing", hint="restore the log from a copy")
    try:
        batch = decode(stored[0])
    except CorruptLogError as error:
        message = f"the records of {place} are damaged: {error.message}"
        raise CorruptLogError(message, hint=error.hint or "restore the log from a copy") from error
    if len(batch) != row.count or int.from_bytes(stored[0][4:8], "little") != row.data_checksum:
        raise CorruptLogError(f"the records of {place} are not those that were written there")
    if row.append_timestamp is not None:
        timestamps = from_integers(np.full(row.count, row.append_timestamp, np.int64))
        return pa.RecordBatch.from_arrays([timestamps, *batch.columns[1:]], schema=BLOCK_SCHEMA)
    return batch


def offsets(row: BlockRow) -> Places:
    """Returns the offsets of the records of a row."""
    if row.offsets is None:
        return np.arange(row.base, row.next, dtype=np.int64)
    return np.frombuffer(row.offsets, "<u4").astype(np.int64) + row.base


def read(
    connection: sqlite3.Connection, topic: StoredTopic, partition: int, span: tuple[int, int], max_bytes: int | None
) -> pa.Table:
    """Returns the records of a range of offsets."""
    topic.topic.check_partition(partition)
    start, end = span
    edges = head(connection, topic, partition)
    if 0 <= start < edges.start and start < end:
        gone = f"{start} to {min(end, edges.start) - 1}"
        message = f"topic {topic.name!r}, partition {partition}: the records of offsets {gone} are deleted"
        raise OffsetOutOfRangeError(message, hint=f"the first remaining record has offset {edges.start}")
    if start < 0:
        raise OffsetOutOfRangeError(f"topic {topic.name!r}, partition {partition}: there is no offset {start}")
    end = min(end, edges.next)
    batches: list[pa.RecordBatch] = []
    places: list[Places] = []
    size = 0
    with contextlib.closing(blocks(connection, topic, partition, start, end)) as stored:
        for _row, batch, place in stored:
            if not len(batch):
                continue
            if max_bytes is not None:
                size += batch.nbytes
                if batches and size > max_bytes:
                    break
            batches.append(batch)
            places.append(place)
    return _table(batches, places)


def blocks(
    connection: sqlite3.Connection, topic: StoredTopic, partition: int, start: int, end: int
) -> Generator[tuple[BlockRow, pa.RecordBatch, Places]]:
    """Yields the rows that cover a range of offsets, their records within the range, and the offsets of these.

    Raises:
        CorruptLogError: A row or block is damaged or lost.
    """
    edge = start
    with contextlib.closing(rows(connection, topic, partition, start, end)) as stored:
        for row in stored:
            if row.base > edge:
                raise _gap(topic, partition, edge)
            edge = row.next
            yield row, *_within(load(connection, topic, partition, row), row, start, end)
    if edge < end:
        raise _gap(topic, partition, edge)


def _within(batch: pa.RecordBatch, row: BlockRow, start: int, end: int) -> tuple[pa.RecordBatch, Places]:
    """Returns the records of a row within a range of offsets, and their offsets."""
    place = offsets(row)
    if start <= row.base and row.next <= end:
        return batch, place
    first, last = np.searchsorted(place, (start, end)).tolist()
    return batch.slice(first, last - first), place[first:last]


def _table(batches: list[pa.RecordBatch], places: list[Places]) -> pa.Table:
    table = pa.Table.from_batches(batches, BLOCK_SCHEMA)
    if len(table) < _SMALL_CHUNK * len(batches):
        table = table.combine_chunks()
    column = np.concatenate(places) if places else np.empty(0, np.int64)
    return table.add_column(0, SCHEMA.field(0), from_integers(column))


def _place(topic: StoredTopic, partition: int, offset: int) -> str:
    return f"topic {topic.name!r}, partition {partition}, offset {offset}"


def _gap(topic: StoredTopic, partition: int, offset: int) -> CorruptLogError:
    message = f"the records from {_place(topic, partition, offset)} on are missing"
    return CorruptLogError(message, hint="restore the log from a copy")
