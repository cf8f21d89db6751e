"""Follows partitions: reads their records as they are committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from millstream.core.records import Headers
from millstream.log.api.topics import Offsets

MOST_RECORDS = 20_000
"""The default number of records that a poll returns, approximately."""


class Fetched(NamedTuple):
    """Consecutive committed records of a partition, as columns.

    Attributes:
        topic: The topic.
        partition: The partition.
        offsets: The offset of each record.
        timestamps: Milliseconds since the epoch.
        keys: Bytes, or None.
        values: Bytes, or None.
        headers: None if no record has any. Headers that cannot be decoded are `UnreadableHeaders`.
        next: The offset after everything that was read. Control records and compacted records before it are skipped.
    """

    topic: str
    partition: int
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    next: int


class Follower(Protocol):
    """Reads the committed records of many partitions as they arrive, in the order of each partition.

    One thread uses it. `follow` and `refresh` raise an `UnknownTopicError` if a topic or partition does not exist. So
    does `poll` for a deleted topic: that of the embedded log at once, that of a Kafka cluster after a while.
    """

    def follow(self, positions: Offsets) -> None:
        """Adds partitions, or moves the position of those that are followed already. None of them is paused then."""
        ...

    def unfollow(self, places: Iterable[tuple[str, int]]) -> None:
        """Removes partitions."""
        ...

    def pause(self, places: Iterable[tuple[str, int]]) -> None:
        """Stops the delivery of records of partitions. Their positions stay."""
        ...

    def resume(self, places: Iterable[tuple[str, int]]) -> None:
        """Continues the delivery of records of paused partitions."""
        ...

    def poll(self, timeout: float, most: int = MOST_RECORDS) -> list[Fetched]:
        """Returns records of the partitions that are followed and not paused.

        It returns as soon as there are records. It also returns, without records, when the end of a partition becomes
        known, because `has_more` of that partition may have changed.

        Args:
            timeout: Seconds to wait for records.
            most: The number of records. It may be exceeded, because records are stored in blocks.

        Returns:
            At most one item for each partition.

        Raises:
            OffsetOutOfRangeError: The records at a position are deleted, or the topic was recreated.
        """
        ...

    def position(self, topic: str, partition: int) -> int:
        """Returns the offset of the next record, after the control records at the end of the partition, if known."""
        ...

    def has_more(self, topic: str, partition: int) -> bool:
        """Returns whether the partition may have committed records at or after the position.

        It sends no request. It is True until the end of the partition is known, and False only if there were no such
        records when the log last answered.
        """
        ...

    def refresh(self, places: Iterable[tuple[str, int]]) -> None:
        """Requests the ends of partitions: `has_more` then accounts for all records committed before this call."""
        ...

    def close(self) -> None:
        """Closes connections."""
        ...
