"""The inputs of an application: the ranges that a batch reads, and the inputs of tasks that their records belong to.

The planner uses this module. It imports neither the engine nor a log.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.runtime.order.positions import Position
from millstream.runtime.program.program import Program
from millstream.stages import Topology

InputId: TypeAlias = tuple[str, int]
"""An input of tasks: a topic, or a repartition without a topic, and a partition number."""


class Range(NamedTuple):
    """The offsets that a batch reads of one partition of a topic.

    Attributes:
        more: The log has records after ``end``.
        bound: The least order position that the first record can have; None if nothing of the partition was read yet.
        ordinal: The ordinal of the partition, see `millstream.runtime.order.positions`.
    """

    topic: str
    partition: int
    start: int
    end: int
    more: bool
    bound: Position | None = None
    ordinal: int = 0


class SourceTopics:
    """The topics that topologies read, by name and by pattern."""

    def __init__(self, topologies: Iterable[Topology]) -> None:
        self._by_topic: dict[str, Source | Repartition] = {}
        self._patterns: list[tuple[re.Pattern[str], Source]] = []
        for topology in topologies:
            for source in (source for part in topology.parts for source in part.sources):
                self._by_topic.update(dict.fromkeys(topology.topics(source), source))
                if isinstance(source, Source) and source.pattern is not None:
                    self._patterns.append((re.compile(source.pattern), source))

    def source(self, topic: str) -> Source | Repartition | None:
        """The node that reads a topic, if any."""
        source = self._by_topic.get(topic)
        if source is None:
            source = next((source for pattern, source in self._patterns if pattern.fullmatch(topic)), None)
        return source


class InputRouting:
    """Maps a partition of a topic to the inputs of tasks that its records go to."""

    def __init__(self, program: Program) -> None:
        self._tasks = SourceTopics(program.placement.tasks)
        self._readers = [(topology, SourceTopics([topology])) for topology in program.placement.readers]
        self._inputs: dict[InputId, list[InputId]] = {}
        self._indexes: dict[str, list[int]] = {}
        self._by_subtopology = [
            (part.index, SourceTopics([topology])) for topology in program.placement.tasks for part in topology.parts
        ]

    def subtopologies(self, topic: str) -> list[int]:
        """The sub-topologies whose tasks get records of a topic, directly or through a direct repartition."""
        indexes = self._indexes.get(topic)
        if indexes is None:
            names = {name for name, _partition in self.inputs(topic, 0)}
            indexes = [index for index, sources in self._by_subtopology if any(map(sources.source, names))]
            self._indexes[topic] = indexes
        return indexes

    def inputs(self, topic: str, partition: int) -> list[InputId]:
        """The partition itself if tasks read the topic, and each direct repartition behind it."""
        inputs = self._inputs.get((topic, partition))
        if inputs is None:
            inputs = self._inputs[topic, partition] = self._find(topic, partition)
        return inputs

    def _find(self, topic: str, partition: int) -> list[InputId]:
        inputs = [(topic, partition)] if self._tasks.source(topic) is not None else []
        for topology, topics in self._readers:
            if topics.source(topic) is not None:
                number = repartition_number(topology, topic, partition)
                inputs += [(topology.topic_of(node), number) for node in topology.plan.of_type(Repartition)]
        return inputs


def repartition_number(topology: Topology, topic: str, partition: int) -> int:
    """The partition number, behind a repartition without a topic, of records of a source partition.

    It is unique among the partitions of all topics that the topology reads.
    """
    sources = list(topology.plan.of_type(Source))
    if len(sources) == 1 and len(sources[0].topics) == 1:
        return partition
    return (zlib.crc32(topic.encode()) << 24) + partition
