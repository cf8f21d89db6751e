"""Retention and compaction of a log that no broker cleans."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from millstream.log.api.topics import Offsets


class Removed(NamedTuple):
    """The records that retention or compaction has deleted.

    Attributes:
        records: The number of records.
        size: The number of bytes, as they were stored.
    """

    records: int
    size: int


class Cleanup(Protocol):
    """Deletes records by retention and compaction, except those that an application holds or has not read."""

    def hold(self, application: str, offsets: Offsets, *, also: bool = False) -> None:
        """Keeps the records from these offsets on, because the application may read them again.

        This replaces earlier holds of the application, or adds to them with `also`. Records that the application has
        not read yet are kept without a hold.

        Raises:
            OffsetOutOfRangeError: Some of these records have been deleted already.
        """
        ...

    def release(self, application: str) -> None:
        """Removes the holds of an application."""
        ...

    def apply_retention(self, now: int | None = None) -> Removed:
        """Deletes the records that exceed the `retention.ms` or `retention.bytes` of their topics.

        Args:
            now: Milliseconds since the epoch; None for the current time.
        """
        ...

    def compact(self, topic: str, now: int | None = None) -> Removed:
        """Deletes the records of a compacted topic that a later record with the same key has replaced.

        A tombstone is deleted `delete.retention.ms` after compaction has first seen it.

        Args:
            topic: The topic.
            now: Milliseconds since the epoch; None for the current time.

        Raises:
            ConfigError: The topic is not compacted.
        """
        ...
