"""Records of a log: producing, reading and offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from millstream.core.records import Headers
from millstream.log.api.topics import Offsets, Ranges
from millstream.log.blocks import SCHEMA as BLOCK_SCHEMA, Block, ColumnBlock

SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *BLOCK_SCHEMA])
"""The columns of the tables that `Records.read` returns."""


class ProducerRecord(NamedTuple):
    """A record to be written.

    Attributes:
        key: Determines the partition, unless `partition` is set.
        value: None deletes the key from a compacted topic.
        timestamp: Milliseconds since the epoch; None for the current time.
        headers: Names and values, in order.
        partition: None to choose it by the key.
    """

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Headers = ()
    partition: int | None = None


class Produced(NamedTuple):
    """Records that were written to consecutive offsets of a partition.

    Attributes:
        partition: The partition.
        offset: The offset of the first record.
        count: The number of records.
    """

    partition: int
    offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used


class Append(NamedTuple):
    """Records to append to a partition, encoded as a block or as columns."""

    topic: str
    partition: int
    block: Block | ColumnBlock


class Stored(NamedTuple):
    """The size of a partition.

    Attributes:
        records: The number of records.
        size: The number of bytes as stored; None if the log does not report it.
    """

    records: int
    size: int | None


class Records(Protocol):
    """Writes, reads and deletes records, and returns offsets."""

    def produce(self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None) -> list[Produced]:
        """Writes records in one transaction.

        A record is written to its own `partition`, else to the one given here, else by its key, as Kafka's producers
        choose it. Records without a key all go to one partition, and those of the next call to another.

        Returns:
            The offsets of the records, by partition.

        Raises:
            RecordRefusedError: A record is too large for the topic, has no key though the topic is compacted, has a
                negative timestamp, or does not consist of bytes.
        """
        ...

    def append(self, appends: Sequence[Append]) -> list[int]:
        """Writes blocks unchanged, in one transaction. Returns the offset of the first record of each.

        Raises:
            RecordRefusedError: A record is too large for its topic, or has no key though the topic is compacted.
        """
        ...

    def starts(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the offset of the first record of each partition, by topic."""
        ...

    def ends(self, topics: Iterable[str], *, committed: bool = True) -> dict[str, list[int]]:
        """Returns the offset that the next record of each partition will have, by topic.

        Args:
            topics: The topics.
            committed: Whether to count committed records only. Otherwise, records of open transactions, and of
                committed ones whose markers are not yet written, count as well.
        """
        ...

    def sizes(self, topic: str) -> list[Stored]:
        """Returns the size of each partition of a topic."""
        ...

    def read(self, topic: str, partition: int, start: int, end: int, *, max_bytes: int | None = None) -> pa.Table:
        """Returns the records with `start <= offset < end`, in order, with the columns of `SCHEMA`.

        Records that compaction has removed, or that are not written yet, are absent.

        Args:
            topic: The topic.
            partition: The partition.
            start: The first offset.
            end: The offset after the last one.
            max_bytes: Stop before about this many bytes are exceeded, but not before the first records. The result is
                empty only if there are no records from `start` to `end`.

        Raises:
            OffsetOutOfRangeError: Retention has deleted records from `start` on.
        """
        ...

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record whose timestamp is at least the given one, by partition.

        It is the end of the partition if there is no such record.
        """
        ...

    def latest_times(self, ranges: Ranges) -> dict[tuple[str, int], int]:
        """Returns approximately the greatest timestamp of ranges of offsets, by partition; empty ranges are absent.

        The timestamp may be that of a slightly larger range, because records are stored in blocks, or that of the last
        records of the range only.
        """
        ...

    def wait(self, positions: Offsets, timeout: float) -> bool:
        """Waits until a partition has records at or beyond its position. Returns whether one has.

        Args:
            positions: The offset of the next record to read, by partition.
            timeout: Seconds to wait.
        """
        ...

    def delete_records(self, offsets: Offsets) -> None:
        """Deletes the records before these offsets.

        The embedded log deletes whole blocks, and none that an application holds (`Cleanup.hold`).
        """
        ...
