"""Topics and partitions of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from millstream.errors import UnknownTopicError


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain tuple (topic, partition) is accepted as well."""

    topic: str
    partition: int


Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""Offsets by (topic, partition)."""

Ranges: TypeAlias = Mapping[tuple[str, int], tuple[int, int]]
"""Ranges of offsets by (topic, partition): the first offset, and the offset after the last."""


class Topic(NamedTuple):
    """A topic.

    Attributes:
        name: Its name.
        partitions: Its number of partitions.
        config: Its configuration, by Kafka's names. Keys that were not set are absent.
        internal: Whether it is an internal topic of an application.
    """

    name: str
    partitions: int
    config: Mapping[str, str]
    internal: bool

    def check_partition(self, partition: int) -> None:
        """Raises an `UnknownTopicError` if the topic has no such partition."""
        check_partition(self.name, self.partitions, partition)


def check_partition(topic: str, partitions: int, partition: int) -> None:
    """Raises an `UnknownTopicError` if a topic with that number of partitions has no such partition."""
    if not isinstance(partition, int) or not 0 <= partition < partitions:
        last = partitions - 1
        hint = f"its partitions are 0 to {last}" if last else "it has partition 0 only"
        raise UnknownTopicError(f"topic {topic!r} has no partition {partition!r}", hint=hint)


class Topics(Protocol):
    """Creates, lists, changes and deletes topics."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        exist_ok: bool = False,
    ) -> Topic:
        """Creates a topic. With `exist_ok`, an existing topic is returned unchanged.

        Raises:
            InvalidNameError: The name is not allowed.
            ConfigError: A key or value of the configuration, or the number of partitions, is not allowed.
            TopicExistsError: The topic exists.
        """
        ...

    def topic(self, name: str) -> Topic:
        """Returns the topic of that name.

        Raises:
            UnknownTopicError: There is none.
        """
        ...

    def topics(self) -> list[Topic]:
        """Returns all topics, ordered by name."""
        ...

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, its records, and the offsets of groups and applications in it."""
        ...

    def add_partitions(self, name: str, total: int) -> Topic:
        """Increases the number of partitions. Existing records stay; keys may map to other partitions from now on.

        Raises:
            ConfigError: The topic already has that many partitions or more.
        """
        ...

    def alter_topic(self, name: str, config: Mapping[str, str | None]) -> Topic:
        """Changes keys of a topic's configuration; None restores the default of a key."""
        ...
