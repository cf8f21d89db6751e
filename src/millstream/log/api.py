"""What a log of topics can do. The embedded log and Kafka do the same under the same names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa

from millstream.core.records import Headers
from millstream.errors import UnknownTopicError
from millstream.log.blocks import SCHEMA as BLOCK_SCHEMA, Block

if TYPE_CHECKING:
    from millstream.views.changes import ViewChange

SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *BLOCK_SCHEMA])
"""The columns of what `Log.read` returns."""


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain tuple (topic, partition) does as well."""

    topic: str
    partition: int


Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""Offsets by (topic, partition)."""

Ranges: TypeAlias = Mapping[tuple[str, int], tuple[int, int]]
"""The first offset, and that behind the last, by (topic, partition)."""

Fingerprints: TypeAlias = Mapping[str, tuple[int, bytes]]
"""By name, how many results a batch had and a digest of them."""


class Topic(NamedTuple):
    """A topic.

    Attributes:
        name: Its name.
        partitions: How many partitions it has.
        config: What was said about it, by Kafka's names. Keys of which nothing was said are not there.
        internal: Whether it belongs to an application and not to its users.
    """

    name: str
    partitions: int
    config: Mapping[str, str]
    internal: bool

    def check_partition(self, partition: int) -> None:
        """Raises an `UnknownTopicError` if the topic has no such partition."""
        check_partition(self.name, self.partitions, partition)


def check_partition(topic: str, partitions: int, partition: int) -> None:
    """Raises an `UnknownTopicError` if a topic with so many partitions does not have that one."""
    if not isinstance(partition, int) or not 0 <= partition < partitions:
        last = partitions - 1
        hint = f"its partitions are 0 to {last}" if last else "it has partition 0 only"
        raise UnknownTopicError(f"topic {topic!r} has no partition {partition!r}", hint=hint)


ChangesOf: TypeAlias = "Callable[[Collection[str] | None], Iterable[ViewChange]]"
"""Gives all that the changelogs of some stores hold, or of all stores for None, as changes of their views."""


class ProducerRecord(NamedTuple):
    """A record to be written.

    Attributes:
        key: Decides the partition, unless that is given.
        value: None deletes the key from a compacted topic.
        timestamp: Milliseconds since the epoch; None for now.
        headers: Names and values, in order.
        partition: None to let the key decide.
    """

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Headers = ()
    partition: int | None = None


class Produced(NamedTuple):
    """Records that came to lie one after the other.

    Attributes:
        partition: Where they are.
        offset: The offset of the first of them.
        count: How many they are.
    """

    partition: int
    offset: int
    count: int  # type: ignore[assignment]  # hides a method of tuple that nobody needs


class Append(NamedTuple):
    """A block that goes to the end of a partition."""

    topic: str
    partition: int
    block: Block


class Removed(NamedTuple):
    """What retention or compaction took away.

    Attributes:
        records: So many records.
        size: So many bytes, as they were stored.
    """

    records: int
    size: int


class Stored(NamedTuple):
    """What a partition holds.

    Attributes:
        records: So many records.
        size: So many bytes, as they are stored; None if the log does not know.
    """

    records: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Publication:
    """All that one batch of an application changes.

    Attributes:
        application: Whose batch it is.
        epoch: What `Log.acquire` gave this instance of the application.
        batch: The number of the batch. Numbers only grow.
        appends: What goes to topics.
        offsets: How far the application has read. They are committed to the consumer group of its name.
        views: What changes in the views of its stores.
        fingerprints: What the batch did, in short, so that a replay can be compared with it.
        state: Small things to remember, by name.
    """

    application: str
    epoch: int
    batch: int
    appends: Sequence[Append] = ()
    offsets: Offsets = field(default_factory=dict)
    views: Sequence[ViewChange] = ()
    fingerprints: Fingerprints = field(default_factory=dict)
    state: Mapping[str, bytes] = field(default_factory=dict)


class Published(NamedTuple):
    """The last batch that an application published.

    Attributes:
        batch: Its number.
        fingerprints: As they were given.
        offsets: How far the application has read: what this batch said, and earlier ones of other partitions.
    """

    batch: int
    fingerprints: Fingerprints
    offsets: Offsets


class Log(Protocol):
    """Topics and their records, consumer groups, and what applications have published.

    Methods may be called from any thread. What a method writes, it writes as a whole or not at all, and it is on the
    disk, or acknowledged by the broker, when the method returns. All raise `LogError` if the log cannot be used.
    """

    def connect(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Waits until the log can be used.

        Args:
            seconds: So long.
            tell: Called with what is waited for, if it takes a while.

        Raises:
            BrokerError: It cannot be used after that time.
        """
        ...

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        exist_ok: bool = False,
    ) -> Topic:
        """Makes a topic, or returns the one that exists if that is allowed, as it is.

        Raises:
            InvalidNameError: The name is not allowed.
            ConfigError: A key or value of the configuration, or the number of partitions, is not allowed.
            TopicExistsError: There is such a topic.
        """
        ...

    def topic(self, name: str) -> Topic:
        """Returns the topic of that name.

        Raises:
            UnknownTopicError: There is none.
        """
        ...

    def topics(self) -> list[Topic]:
        """Returns all topics, by name."""
        ...

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, its records, and what groups and applications have said about it."""
        ...

    def add_partitions(self, name: str, total: int) -> Topic:
        """Gives a topic more partitions. Records stay where they are, and keys may move to others from now on.

        Raises:
            ConfigError: The topic has that many or more already.
        """
        ...

    def alter_topic(self, name: str, config: Mapping[str, str | None]) -> Topic:
        """Changes some keys of a topic's configuration; None takes a key back to its default."""
        ...

    def produce(self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None) -> list[Produced]:
        """Writes records, all of them at once.

        A record goes to its own `partition`, else to the one given here, else by its key, as Kafka's producers choose
        it. Those without a key go to one partition, and in the next call to another.

        Returns:
            Where they are, by partition.

        Raises:
            RecordRefusedError: A record is too large for the topic, has no key though the topic is compacted, has a
                negative timestamp, or is not made of bytes.
        """
        ...

    def append(self, appends: Sequence[Append]) -> list[int]:
        """Writes blocks as they are, all of them at once. Returns the offset of the first record of each.

        Raises:
            RecordRefusedError: A record is too large for its topic, or has no key though the topic is compacted.
        """
        ...

    def starts(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the offset of the first record of each partition, by topic."""
        ...

    def ends(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the offset that the next record of each partition will have, by topic."""
        ...

    def sizes(self, topic: str) -> list[Stored]:
        """Returns how much each partition of a topic holds."""
        ...

    def read(self, topic: str, partition: int, start: int, end: int, *, max_bytes: int | None = None) -> pa.Table:
        """Returns the records with `start <= offset < end`, in order, with the columns of `SCHEMA`.

        Those that compaction has removed are not there, nor those that are not written yet.

        Args:
            topic: The topic.
            partition: The partition.
            start: The first offset.
            end: The offset after the last one.
            max_bytes: Stop before more than about so many bytes, but not before the first records. Nothing at all
                comes back only if there is nothing from `start` to `end`.

        Raises:
            OffsetOutOfRangeError: Records from `start` on have been deleted by retention.
        """
        ...

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record whose timestamp is at least the given one, by partition.

        It is the end of the partition if there is no such record.
        """
        ...

    def latest_times(self, ranges: Ranges) -> dict[tuple[str, int], int]:
        """Returns about the greatest timestamp of ranges of offsets, by partition; nothing where nothing is.

        It may be that of a somewhat larger range, as records are looked at in blocks, or of its last records.

        Args:
            ranges: The first offset, and that behind the last, by partition.
        """
        ...

    def wait(self, positions: Offsets, timeout: float) -> bool:
        """Waits until some partition has records at its position or beyond. Returns whether one has.

        Args:
            positions: The offset of the next record wanted, by partition.
            timeout: Seconds after which to give up.
        """
        ...

    def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Remembers how far a consumer group has read."""
        ...

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns how far a consumer group has read: nothing if there is no such group."""
        ...

    def groups(self) -> list[str]:
        """Returns the names of all consumer groups."""
        ...

    def delete_group(self, group: str) -> None:
        """Forgets a consumer group.

        Raises:
            UnknownGroupError: There is none of that name.
        """
        ...

    def acquire(self, application: str) -> int:
        """Makes the caller the one instance of an application. Returns its epoch, which is above all earlier ones."""
        ...

    def publish(self, publication: Publication) -> bool:
        """Writes all that a batch changes, once.

        Returns:
            False if this batch or a later one was published before; nothing is written then.

        Raises:
            FencedError: Another instance has acquired the application since.
            NonDeterministicError: The batch was the last one published, but its fingerprints were others.
        """
        ...

    def published(self, application: str) -> Published | None:
        """Returns the last batch that an application published, if any."""
        ...

    def state(self, application: str) -> dict[str, bytes]:
        """Returns the small things that an application remembers, by name."""
        ...

    def set_state(self, application: str, state: Mapping[str, bytes], epoch: int) -> None:
        """Remembers small things outside of any batch. Those of other names stay as they are.

        Raises:
            FencedError: Another instance has acquired the application since.
        """
        ...

    def hold(self, application: str, offsets: Offsets, *, also: bool = False) -> None:
        """Says which records an application may still read again: those from these offsets on.

        Retention and compaction leave them alone, and those which the application has not read yet. This replaces what
        was said before, unless it is said besides that (``also``).

        Raises:
            OffsetOutOfRangeError: Some of these records have been deleted already.
        """
        ...

    def release(self, application: str) -> None:
        """Takes back what `hold` said."""
        ...

    def delete_application(self, application: str) -> None:
        """Forgets an application: its epoch, published batch, state, group, holds and views. Its topics stay."""
        ...

    def drop_views(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of some stores of an application, if there are any."""
        ...

    def complete_views(self, application: str, changes: ChangesOf, *, again: bool) -> None:
        """Makes views anew that are damaged, or miss some of what an application has published.

        Args:
            application: The application.
            changes: Gives all that has changed in its stores; it is not called if nothing is damaged or missing.
            again: The last batch will be run again, and brings what it changes in views.
        """
        ...

    @property
    def cleans_itself(self) -> bool:
        """Whether retention and compaction happen without being asked for."""
        ...

    def delete_records(self, offsets: Offsets) -> None:
        """Deletes the records before some offsets. Those that an application holds, or that share a block, may stay."""
        ...

    def apply_retention(self, now: int | None = None) -> Removed:
        """Deletes the records that are older, or more, than their topics keep.

        Args:
            now: Milliseconds since the epoch; None for the clock's.
        """
        ...

    def compact(self, topic: str, now: int | None = None) -> Removed:
        """Deletes the records of a compacted topic that a later one with the same key has replaced.

        A record without a value is deleted too, `delete.retention.ms` after it was first met here.

        Args:
            topic: The topic.
            now: Milliseconds since the epoch; None for the clock's.

        Raises:
            ConfigError: The topic is not a compacted one.
        """
        ...

    def close(self) -> None:
        """Gives back what the log has open."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
