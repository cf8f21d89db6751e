"""The partitioning of input topics: checked where their records reach state, or made by repartition topics.

A task has the rows of the keys of its partition. Records of an input topic that reach state directly must therefore be
in the partition that Kafka's own producers choose for their key. Other producers choose another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from millstream.errors import SetupError
from millstream.log.api import Log
from millstream.log.arrays import partitions_of_keys
from millstream.optimize.repartition_inputs import repartition_inputs, repartition_of
from millstream.plan.fingerprint import PlainPlan
from millstream.plan.side import BEGIN_AGAIN
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.plan.topics import reads
from millstream.serde.windowed import window_bytes
from millstream.stages import Topology
from millstream.stages.subtopology import SubTopology, changelog_topic, cut

CHECKED_AT_START = 10_000
"""The number of records of each partition that are all checked, after each start."""

SAMPLE = 64
"""The number of records that are checked of each later read of a partition."""


class PartitioningCheck:
    """Checks that records are in the partition of their key.

    Args:
        topic: The topic.
        partition: The partition.
        count: The number of partitions of the topic.
        window: The number of bytes at the end of a key that producers do not hash.
    """

    def __init__(self, topic: str, partition: int, count: int, window: int = 0) -> None:
        self._topic = topic
        self._partition = partition
        self._count = count
        self._window = window
        self._checked = 0

    def check(self, offsets: list[int], keys: list[bytes | None]) -> None:
        """Checks records: all of the first ones, then a sample.

        Raises:
            SetupError: A record is in another partition than that of its key.
        """
        if self._checked >= CHECKED_AT_START and len(keys) > SAMPLE:
            step = -(-len(keys) // SAMPLE)
            offsets, keys = offsets[::step], keys[::step]
        self._checked += len(keys)
        if self._window:
            keys = [None if key is None else key[: -self._window] for key in keys]
        found = partitions_of_keys(keys, self._count)
        wrong = ((found != self._partition) & (found >= 0)).nonzero()[0]
        if len(wrong):
            place = int(wrong[0])
            raise SetupError(
                f"topic {self._topic!r} is not partitioned by Kafka's default partitioner: the record at offset "
                f"{offsets[place]} of partition {self._partition} has a key that belongs to partition {found[place]}. "
                "Its records reach state directly, and a key must be in one task only",
                hint="set input.partitioning=repartition: such topics then go through a repartition topic; or let "
                "the producers use Kafka's partitioner (librdkafka: partitioner=murmur2_random); or, if all records "
                "of a key are in one partition, and in the same one of all topics that are joined: trust",
            )


def checks_of(topology: Topology, counts: Mapping[str, int], topics: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The topics whose records reach state directly: (number of partitions, window bytes of a key), by topic.

    Args:
        topology: The topology of a task.
        counts: The number of partitions of each topic.
        topics: The input topics of the application.
    """
    sources = [source for part in _stateful(topology) for source in _direct(part)]
    return {
        topic: (counts[topic], window_bytes(source.key))
        for topic in topics
        for source in sources
        if reads(source, topic) and counts.get(topic, 1) > 1
    }


class Repartitioned(NamedTuple):
    """A topology with repartitions below sources.

    Attributes:
        topology: The topology.
        counts: The number of partitions of each repartition topic that was added.
        messages: Messages about repartitions that the configuration does not ask for.
    """

    topology: Topology
    counts: dict[str, int]
    messages: list[str]


def with_repartitions(
    topology: Topology, mode: str, counts: Mapping[str, int], before: PlainPlan | None
) -> Repartitioned:
    """Adds repartitions below sources whose records reach state directly, where they are needed.

    A source whose topics have another number of partitions than the other inputs of its sub-topology always gets one. A
    source that has one already keeps it.

    Args:
        topology: The topology.
        mode: The value of ``input.partitioning``.
        counts: The number of partitions of each topic that exists: input topics, repartition topics and changelogs.
        before: The plan that ran last.

    Raises:
        SetupError: A topic has another number of partitions than the state that its records reach.
    """
    ran = {} if before is None else before["operators"]
    chosen: dict[str, int] = {}
    messages = []
    for part in _stateful(topology):
        stored = _stored(topology, part, counts)
        target = _target(topology, part, counts) if stored is None else stored
        for source in _direct(part):
            if mode == "repartition" or repartition_of(source.name) in ran:
                chosen[source.name] = target
                continue
            sizes = {topic: count for topic, count in counts.items() if reads(source, topic)}
            for topic in [topic for topic, count in sizes.items() if count != target][:1]:
                if stored is not None and source.name in ran:
                    raise _moved(topic, sizes[topic], stored)
                chosen[source.name] = target
                messages.append(
                    f"topic {topic} has {sizes[topic]} partitions, and other inputs of its sub-topology have "
                    f"{target}: its records go through a repartition topic"
                )
    if not chosen:
        return Repartitioned(topology, {}, [])
    new = cut(repartition_inputs(topology.plan, chosen))
    added = [node for node in new.plan.of_type(Repartition) if node.parent.name in chosen]
    return Repartitioned(new, {new.topic_of(node): chosen[node.parent.name] for node in added}, messages)


def _stateful(topology: Topology) -> Iterator[SubTopology]:
    """Yields the sub-topologies that have stores. Global tables belong to none."""
    return (part for part in topology.parts if any(topology.facts.stores_of(node) for node in part.nodes))


def _direct(part: SubTopology) -> list[Source]:
    return [source for source in part.sources if isinstance(source, Source)]


def existing_counts(topology: Topology, log: Log) -> dict[str, int]:
    """The number of partitions of each topic that matches a pattern, and of each of the application's own."""
    sources = [source for source in topology.plan.of_type(Source) if source.pattern is not None]
    own = {topology.topic_of(node) for node in topology.plan.of_type(Repartition)}
    own |= {changelog_topic(topology.application_id, spec) for spec in topology.stores}
    return {
        topic.name: topic.partitions
        for topic in log.topics()
        if topic.name in own or (not topic.internal and any(reads(source, topic.name) for source in sources))
    }


def _moved(topic: str, count: int, stored: int) -> SetupError:
    return SetupError(
        f"topic {topic!r} has {count} partitions, and its records reach state in {stored} partitions: its keys would "
        "move to tasks that do not have their rows",
        hint="set input.partitioning=repartition: its records then go through a repartition topic of "
        f"{stored} partitions; or {BEGIN_AGAIN}",
    )


def _stored(topology: Topology, part: SubTopology, counts: Mapping[str, int]) -> int | None:
    """The number of partitions of the changelogs of a sub-topology; None if there is none yet."""
    specs = (spec for node in part.nodes for spec in topology.facts.stores_of(node))
    changelogs = (changelog_topic(topology.application_id, spec) for spec in specs)
    return next((counts[changelog] for changelog in changelogs if changelog in counts), None)


def _target(topology: Topology, part: SubTopology, counts: Mapping[str, int]) -> int:
    """The number of partitions that all inputs of a sub-topology must have: the one that was given, else the most."""
    exchanges = [node for node in part.sources if isinstance(node, Repartition)]
    given = [node.partitions or counts.get(topology.topic_of(node)) for node in exchanges]
    sizes = [count for topic, count in counts.items() if any(reads(source, topic) for source in _direct(part))]
    return next((count for count in given if count is not None), max(sizes, default=1))
