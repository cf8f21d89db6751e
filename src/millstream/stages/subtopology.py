"""Cuts a plan into sub-topologies: the parts whose operators share one partitioning, or share a store."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.errors import TopologyError
from millstream.plan.analysis import Facts
from millstream.plan.joins import ForeignKeyResolve, StreamTableJoin
from millstream.plan.node import Node, Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition
from millstream.state.spec import StoreSpec


@dataclass(frozen=True, slots=True)
class SubTopology:
    """A part of the topology that runs as a unit; a task runs one partition of it.

    Attributes:
        index: Its number.
        nodes: Its operators, in the plan's order. A `Repartition` belongs to the part that writes its topic.
        sources: The topics that it reads, by the node whose records they are; of a repartition topic that is the
            `Repartition`.
    """

    index: int
    nodes: tuple[Node, ...]
    sources: tuple[Source | Repartition, ...]

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores of its operators."""
        return tuple(spec for node in self.nodes for spec in node.stores)


@dataclass(frozen=True, slots=True)
class Topology:
    """A plan cut into sub-topologies, with what its operators need to know of each other."""

    plan: Plan
    facts: Facts
    parts: tuple[SubTopology, ...]

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self.plan.application_id

    def topic_of(self, node: Repartition) -> str:
        """The whole name of an internal topic."""
        return f"{self.application_id}-{node.topic}-repartition"

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """The tables that are whole in every task."""
        return tuple(self.plan.of_type(GlobalTable))

    def partitions(self, counts: dict[str, int]) -> dict[str, int]:
        """How many partitions each topic has, internal ones included, given those of the input topics.

        A repartition topic has as many as the user says, else as many as the other inputs of the sub-topology that
        reads it, because what is joined must be partitioned alike, else as many as the inputs of the one that writes.

        Raises:
            TopologyError: The inputs of a sub-topology have different numbers of partitions.
        """
        found = dict(counts)
        waiting = list(self.plan.of_type(Repartition))
        for node in waiting:
            if node.partitions is not None:
                found[self.topic_of(node)] = node.partitions
        waiting = [node for node in waiting if node.partitions is None]
        while waiting:
            for node in list(waiting):
                reader = next(part for part in self.parts if node in part.sources)
                writer = next(part for part in self.parts if node in part.nodes)
                known = self._known(reader, found) or self._known(writer, found)
                if known or len(waiting) == 1:
                    found[self.topic_of(node)] = max(known, default=1)
                    waiting.remove(node)
                    break
            else:
                found[self.topic_of(waiting.pop())] = 1
        for part in self.parts:
            self._check_alike(part, found)
        return found

    def _known(self, part: SubTopology, found: dict[str, int]) -> list[int]:
        return [found[topic] for source in part.sources for topic in self.topics(source) if topic in found]

    def _check_alike(self, part: SubTopology, found: dict[str, int]) -> None:
        sizes = {topic: found[topic] for source in part.sources for topic in self.topics(source) if topic in found}
        fixed = [n for n in part.sources if isinstance(n, Repartition) and n.partitions is not None]
        if fixed and len(set(sizes.values())) > 1:
            listed = ", ".join(f"{topic} has {count}" for topic, count in sizes.items())
            raise TopologyError(
                f"what is processed together must have the same number of partitions: {listed}",
                hint="leave partitions=… out, or give all of them the same",
                at=fixed[0].at,
            )

    def topics(self, source: Source | Repartition) -> tuple[str, ...]:
        """The topics of a source."""
        return (self.topic_of(source),) if isinstance(source, Repartition) else source.topics


def cut(plan: Plan) -> Topology:
    """Cuts a plan into sub-topologies.

    The cuts are at repartition topics. What a store ties together stays together, even across such a topic: an
    operator that looks a table up, the processors that share a store, the two ends of a foreign-key join.
    """
    groups = _Groups()
    owners: dict[str, Node] = {spec.name: node for node in plan.nodes for spec in node.stores}
    # A repartition has two sides: the sink that writes the topic (the node itself) and the source that reads it.
    readers: dict[Node, _Reader] = {node: _Reader(node) for node in plan.of_type(Repartition)}
    for node in plan.nodes:
        if isinstance(node, GlobalTable):
            continue
        groups.add(node)
        for parent in node.parents:
            groups.union(node, readers.get(parent, parent))
        for name in node.reads_stores:
            groups.union(node, owners[name])
        looked_up = node.table if isinstance(node, StreamTableJoin) else None
        looked_up = node.left if isinstance(node, ForeignKeyResolve) else looked_up
        if looked_up is not None:
            groups.union(node, readers.get(looked_up, looked_up))
    parts: dict[object, list[Node]] = {}
    sources: dict[object, list[Source | Repartition]] = {}
    for node in plan.nodes:
        if isinstance(node, GlobalTable):
            continue
        parts.setdefault(groups.find(node), []).append(node)
        if isinstance(node, Source):
            sources.setdefault(groups.find(node), []).append(node)
        if isinstance(node, Repartition):
            sources.setdefault(groups.find(readers[node]), []).append(node)
            parts.setdefault(groups.find(readers[node]), [])
    used = [root for root in parts if sources.get(root)]
    return Topology(
        plan,
        Facts(plan),
        tuple(SubTopology(index, tuple(parts[root]), tuple(sources[root])) for index, root in enumerate(used)),
    )


def changelog_topic(application_id: str, store: StoreSpec) -> str:
    """The whole name of a store's changelog."""
    return f"{application_id}-{store.name}-changelog"


class _Reader:
    """The reading side of a repartition topic."""

    def __init__(self, node: Repartition) -> None:
        self.node = node


class _Groups:
    """Disjoint sets."""

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
