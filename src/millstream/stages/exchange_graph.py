"""The sub-topologies that run in tasks as a graph, with an edge for each internal topic.

Strongly connected components count as one: the tasks of a component cannot wait for records of each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from millstream.plan.node import Node
from millstream.plan.stateless import Repartition
from millstream.stages.placement import Placement


@dataclass(frozen=True, slots=True)
class ExchangeGraph:
    """The internal topics between the sub-topologies of tasks.

    Attributes:
        writers: The sub-topology that writes each internal topic.
        readers: The sub-topology that reads each internal topic.
        components: The component of each sub-topology, as the least index in it, in topological order.
        depths: For each sub-topology, the most internal topics that a record passes before it gets there.
        delays: For each internal topic, the most batches between the read of an origin and the read of its record.
        levels: For each internal topic inside a component, the most topics inside it that a record passes up to and
            with this one. Operators have no cycles, so the records of a topic never come of those of its own level.
    """

    writers: dict[str, int]
    readers: dict[str, int]
    components: dict[int, int]
    depths: dict[int, int]
    delays: dict[str, int]
    levels: dict[str, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The greatest depth."""
        return max(self.depths.values(), default=0)

    def upstream(self, component: int) -> list[int]:
        """The other components that write topics which a component reads."""
        return sorted({source for source, target in self._edges() if target == component != source})

    def is_inside(self, topic: str) -> bool:
        """Whether a topic leads from a component to itself."""
        return topic in self.writers and self.components[self.writers[topic]] == self.components[self.readers[topic]]

    def level(self, topic: str) -> int:
        """The level of an internal topic inside its component; 0 of all other topics."""
        return self.levels.get(topic, 0)

    def last_level(self, component: int) -> int:
        """The greatest level of the topics inside a component; 0 without any."""
        own = (topic for topic in self.levels if self.components[self.readers[topic]] == component)
        return max((self.levels[topic] for topic in own), default=0)

    def _edges(self) -> set[tuple[int, int]]:
        """The edges between components."""
        return {(self.components[self.writers[t]], self.components[self.readers[t]]) for t in self.writers}


def exchange_graph(placement: Placement) -> ExchangeGraph:
    """Builds the graph of the sub-topologies that a placement runs in tasks."""
    writers: dict[str, int] = {}
    readers: dict[str, int] = {}
    for task in placement.tasks:
        for part in task.parts:
            writers.update({task.topic_of(node): part.index for node in part.repartitions})
            internal = (source for source in part.sources if isinstance(source, Repartition))
            readers.update({task.topic_of(node): part.index for node in internal if node not in placement.direct})
    parts = [part.index for task in placement.tasks for part in task.parts]
    edges = {(writers[topic], readers[topic]) for topic in writers}
    reachable = _closure(parts, edges)
    component = {
        index: min(other for other in parts if other == index or {(index, other), (other, index)} <= reachable)
        for index in parts
    }
    above = {
        index: {writer for writer, reader in edges if component[reader] == component[index] != component[writer]}
        for index in parts
    }
    # A component comes after all components from which it is reachable.
    rank = {
        own: sum((other, own) in reachable and component[other] != own for other in parts) for own in component.values()
    }
    ordered = sorted(parts, key=lambda index: (rank[component[index]], component[index], index))
    # A record can pass each topic inside a component once.
    inside = [component[writers[t]] for t in writers if component[writers[t]] == component[readers[t]]]
    depths: dict[int, int] = {}
    for index in ordered:
        depths[index] = max((depths[other] + inside.count(component[other]) + 1 for other in above[index]), default=0)
    delays = {topic: depths[writer] + inside.count(component[writer]) + 1 for topic, writer in writers.items()}
    in_order = {index: component[index] for index in ordered}
    return ExchangeGraph(writers, readers, in_order, depths, delays, _levels(placement, writers, readers, component))


def _levels(
    placement: Placement, writers: dict[str, int], readers: dict[str, int], component: dict[int, int]
) -> dict[str, int]:
    """The levels of the topics inside components: see `ExchangeGraph`."""
    exchanges = {
        node: task.topic_of(node) for task in placement.tasks for part in task.parts for node in part.repartitions
    }
    inside = {topic for topic, writer in writers.items() if component[writer] == component[readers[topic]]}
    levels: dict[str, int] = {}

    def level(node: Repartition) -> int:
        topic = exchanges.get(node)
        if topic not in inside:
            return 0
        if topic not in levels:
            above = [level(other) for other in _exchanges_above(node)]
            levels[topic] = 1 + max(above, default=0)
        return levels[topic]

    for node in exchanges:
        level(node)
    return levels


def _exchanges_above(exchange: Repartition) -> set[Repartition]:
    """The exchanges from which records get to another one without a further exchange."""
    found: set[Repartition] = set()
    passed: set[Node] = set()
    pending = list(exchange.parents)
    while pending:
        node = pending.pop()
        if isinstance(node, Repartition):
            found.add(node)
        elif node not in passed:
            passed.add(node)
            pending += node.parents
    return found


def _closure(nodes: Iterable[int], edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs of nodes of which the second is reachable from the first by at least one edge."""
    reachable = set(edges)
    for middle in nodes:
        into = [source for source, target in reachable if target == middle]
        out = [target for source, target in reachable if source == middle]
        reachable.update((source, target) for source in into for target in out)
    return reachable
