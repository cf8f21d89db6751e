"""Cuts a plan into sub-topologies: the parts whose operators share one partitioning, or share a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from millstream.errors import TopologyError
from millstream.plan.analysis import PlanFacts
from millstream.plan.node import Node, Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition
from millstream.plan.topics import reads
from millstream.state.spec import StoreSpec

Input: TypeAlias = Source | Repartition
"""A node whose topics a sub-topology reads; a `Repartition` stands for its internal topic."""


@dataclass(frozen=True, slots=True)
class SubTopology:
    """A part of the topology that runs as a unit; a task runs one partition of it.

    Attributes:
        index: Its number.
        nodes: Its operators, in the plan's order. A `Repartition` belongs to the part that writes its topic.
        sources: The inputs that it reads.
        is_split_off: It is the part above exchanges that a placement has split off another one.
    """

    index: int
    nodes: tuple[Node, ...]
    sources: tuple[Input, ...]
    is_split_off: bool = False

    @property
    def repartitions(self) -> tuple[Repartition, ...]:
        """The exchanges that it writes."""
        return tuple(node for node in self.nodes if isinstance(node, Repartition))


@dataclass(frozen=True, slots=True)
class Topology:
    """A plan cut into sub-topologies, with the analysis of the plan."""

    plan: Plan
    facts: PlanFacts
    parts: tuple[SubTopology, ...]

    @property
    def application_id(self) -> str:
        """The application id."""
        return self.plan.application_id

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """The tables that are complete in every task."""
        return tuple(self.plan.of_type(GlobalTable))

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that exist when the topology runs."""
        return tuple(spec for node in self.plan.nodes for spec in self.facts.stores_of(node))

    def topic_of(self, node: Repartition) -> str:
        """Returns the full name of an internal topic."""
        return f"{self.application_id}-{node.topics[0]}"

    def topics(self, source: Input) -> tuple[str, ...]:
        """Returns the full names of the topics of an input."""
        return (self.topic_of(source),) if isinstance(source, Repartition) else source.topics

    def partitions(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the number of partitions of each topic, internal ones included, from those of the input topics.

        A repartition topic has the number that the user gave. Otherwise it has as many partitions as the other inputs
        of the sub-topology that reads it, because joined inputs must be partitioned alike, or else as many as the
        inputs of the sub-topology that writes it. One that exists, and is among `counts`, keeps its number.

        Raises:
            TopologyError: The inputs of a sub-topology have different numbers of partitions.
        """
        partitions = dict(counts)
        pending = []
        for node in self.plan.of_type(Repartition):
            if node.partitions is None:
                if self.topic_of(node) not in partitions:
                    pending.append(node)
            else:
                partitions[self.topic_of(node)] = node.partitions
        while pending:
            for node in pending:
                reader = next(part for part in self.parts if node in part.sources)
                writer = next(part for part in self.parts if node in part.nodes)
                sizes = self._sizes(reader, partitions) or self._sizes(writer, partitions)
                if sizes or len(pending) == 1:
                    partitions[self.topic_of(node)] = max(sizes.values(), default=1)
                    pending.remove(node)
                    break
            else:  # a cycle of exchanges without any input
                partitions[self.topic_of(pending.pop())] = 1
        for part in self.parts:
            self._check_equal(part, partitions)
        return partitions

    def task_counts(self, partitions: Mapping[str, int]) -> dict[int, int]:
        """Returns the number of tasks of each sub-topology, by its index: the most partitions that an input has.

        Args:
            partitions: The number of partitions of each topic, as `partitions` returns it.
        """
        return {part.index: max(self._sizes(part, partitions).values(), default=0) for part in self.parts}

    def _sizes(self, part: SubTopology, partitions: Mapping[str, int]) -> dict[str, int]:
        """Returns the number of partitions of each input topic of a sub-topology, as far as they are known."""
        internal = {self.topic_of(node) for node in self.plan.of_type(Repartition)}
        sizes = {}
        for source in part.sources:
            names = self.topics(source)
            if isinstance(source, Source) and source.pattern is not None:
                names = tuple(topic for topic in partitions if topic not in internal and reads(source, topic))
            sizes.update({topic: partitions[topic] for topic in names if topic in partitions})
        return sizes

    def _check_equal(self, part: SubTopology, partitions: Mapping[str, int]) -> None:
        sizes = self._sizes(part, partitions)
        fixed = [node for node in part.sources if isinstance(node, Repartition) and node.partitions is not None]
        if fixed and len(set(sizes.values())) > 1:
            listed = ", ".join(f"{topic} has {count}" for topic, count in sizes.items())
            raise TopologyError(
                f"the inputs of a sub-topology must have the same number of partitions: {listed}",
                hint="leave partitions=… out, or give all of them the same",
                at=fixed[0].at,
            )


def cut(plan: Plan) -> Topology:
    """Cuts a plan into sub-topologies.

    The cuts are at repartition topics. Operators that share a store stay together, even across such a topic: an
    operator and the table that it looks up, processors of one store, the two ends of a foreign-key join.
    """
    groups = _DisjointSets()
    owners: dict[str, Node] = {spec.name: node for node in plan.nodes for spec in node.stores}
    # A repartition has two ends: the sink that writes the topic (the node itself) and the source that reads it.
    readers: dict[Node, _Reader] = {node: _Reader() for node in plan.of_type(Repartition)}
    nodes = [node for node in plan.nodes if node.role != "global"]
    for node in nodes:
        groups.add(node)
        tables = (table for table in node.looks_up if table.role != "global")
        for above in (*node.parents, *tables):
            groups.union(node, readers.get(above, above))
        for name in node.reads_stores:
            groups.union(node, owners[name])
    parts: dict[object, list[Node]] = {}
    sources: dict[object, list[Input]] = {}
    for node in nodes:
        parts.setdefault(groups.find(node), []).append(node)
        if isinstance(node, Input):
            reader = groups.find(readers.get(node, node))
            parts.setdefault(reader, [])
            sources.setdefault(reader, []).append(node)
    used = [root for root in parts if root in sources]
    return Topology(
        plan,
        PlanFacts(plan),
        tuple(SubTopology(index, tuple(parts[root]), tuple(sources[root])) for index, root in enumerate(used)),
    )


def changelog_topic(application_id: str, store: StoreSpec) -> str:
    """Returns the full name of a store's changelog topic."""
    return f"{application_id}-{store.name}-changelog"


class _Reader:
    """The reading end of a repartition topic."""


class _DisjointSets:
    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def add(self, item: object) -> None:
        self._parent.setdefault(item, item)

    def find(self, item: object) -> object:
        self.add(item)
        while self._parent[item] is not item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def union(self, a: object, b: object) -> None:
        self._parent[self.find(a)] = self.find(b)
