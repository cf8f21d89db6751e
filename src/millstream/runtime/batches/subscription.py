"""The topics that an application reads: those it names, those that match its patterns, and its own."""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.log.api import Topics
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import InputRouting
from millstream.stages.exchange_graph import exchange_graph


class TopicGroup(NamedTuple):
    """Topics whose records meet in a task, behind any number of exchanges.

    Attributes:
        subtopologies: The sub-topologies that read or write the topics.
        inputs: The input topics, which are read in step.
        internal: The internal topics.
    """

    subtopologies: set[int]
    inputs: set[str]
    internal: set[str]

    @property
    def topics(self) -> set[str]:
        """All topics."""
        return self.inputs | self.internal

    def merged(self, other: TopicGroup) -> TopicGroup:
        """The group that this one and another are together."""
        return TopicGroup(
            self.subtopologies | other.subtopologies, self.inputs | other.inputs, self.internal | other.internal
        )


class Subscription:
    """The subscribed topics. Topics that match patterns are looked up again at intervals.

    Attributes:
        topics: All topics, in a fixed order.
        internal: The repartition topics among them.
        globals: The topics of global tables among them.
        restores: The changelogs among them, which are read only to rebuild stores.
        groups: The topics that tasks read, in groups that have nothing to do with each other.
    """

    def __init__(self, program: Program, log: Topics, clock: Clock = SYSTEM_CLOCK) -> None:
        topology = program.topology
        direct = program.placement.direct
        self._log = log
        self._clock = clock
        self.internal = {topology.topic_of(n) for n in topology.plan.of_type(Repartition) if n not in direct}
        self.globals = {table.topic for table in topology.global_tables}
        self.restores = set(program.restores)
        named = {topic for source in topology.plan.of_type(Source) for topic in source.topics}
        self._named = sorted(named | self.internal | self.globals | self.restores)
        patterns = (source.pattern for source in topology.plan.of_type(Source))
        self._patterns = [re.compile(pattern) for pattern in patterns if pattern is not None]
        self._program = program
        self._checked = 0.0
        self.topics = self._named
        self.groups = _groups(program, self.topics)
        self.refresh(0)

    def refresh(self, age: float) -> None:
        """Looks up new topics, unless the last lookup is less than *age* seconds ago."""
        if not self._patterns or self._clock.monotonic() - self._checked < age:
            return
        self._checked = self._clock.monotonic()
        matching = [
            topic.name
            for topic in self._log.topics()
            if not topic.internal and any(pattern.fullmatch(topic.name) for pattern in self._patterns)
        ]
        topics = self._named + sorted(set(matching) - set(self._named))
        if topics != self.topics:
            self.topics = topics
            self.groups = _groups(self._program, topics)


def _groups(program: Program, topics: list[str]) -> list[TopicGroup]:
    routing, graph = InputRouting(program), exchange_graph(program.placement)
    groups: list[TopicGroup] = []
    for index in graph.components:
        read = {topic for topic in topics if index in routing.subtopologies(topic)}
        written = {topic for topic, writer in graph.writers.items() if writer == index}
        internal = written | (read & graph.writers.keys())
        group = TopicGroup({index}, read - internal, internal)
        for other in [other for other in groups if other.topics & group.topics]:
            groups.remove(other)
            group = group.merged(other)
        groups.append(group)
    return groups
