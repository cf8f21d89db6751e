"""The sub-topologies that run in tasks as a graph, with an edge for each internal topic.

Strongly connected components count as one: the tasks of a component cannot wait for records of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.stateless import Repartition
from millstream.stages.placement import Placement


@dataclass(frozen=True, slots=True)
class ExchangeGraph:
    """The internal topics between the sub-topologies of tasks.

    Attributes:
        writers: The sub-topology that writes each internal topic.
        readers: The sub-topologies that get the records of each internal topic, directly or through operators that run
            where topics are read.
        components: The component of each sub-topology, as the least index in it, in topological order.
        depths: For each sub-topology, the most internal topics that a record passes before it gets there.
        delays: For each internal topic, the most batches between the read of an origin and the read of its record.
    """

    writers: dict[str, int]
    readers: dict[str, tuple[int, ...]]
    components: dict[int, int]
    depths: dict[int, int]
    delays: dict[str, int]

    @property
    def depth(self) -> int:
        """The greatest depth."""
        return max(self.depths.values(), default=0)

    def upstream(self, component: int) -> list[int]:
        """The other components that write topics which a component reads."""
        return sorted({source for source, target in self._edges() if target == component != source})

    def is_inside(self, topic: str) -> bool:
        """Whether a topic leads from a component to itself."""
        own = self.components.get(self.writers.get(topic, -1))
        return own is not None and any(self.components[reader] == own for reader in self.readers[topic])

    def _edges(self) -> set[tuple[int, int]]:
        """The edges between components."""
        return {
            (self.components[writer], self.components[reader])
            for topic, writer in self.writers.items()
            for reader in self.readers[topic]
        }


def exchange_graph(placement: Placement) -> ExchangeGraph:
    """Builds the graph of the sub-topologies that a placement runs in tasks."""
    writers: dict[str, int] = {}
    reading: dict[Repartition, int] = {}
    parts = {part.index: (task, part) for task in placement.tasks for part in task.parts}
    for index, (task, part) in parts.items():
        writers.update({task.topic_of(node): index for node in part.repartitions})
        reading.update({source: index for source in part.sources if isinstance(source, Repartition)})
    targets: dict[str, set[int]] = {topic: set() for topic in writers}
    for task in (*placement.tasks, *placement.readers):
        for part in task.parts:
            for topic in (task.topic_of(source) for source in part.sources if isinstance(source, Repartition)):
                if topic in targets:
                    targets[topic] |= {part.index} & parts.keys() or {reading[node] for node in part.repartitions}
    edges = {(writers[topic], reader) for topic, readers in targets.items() for reader in readers}
    reachable = _closure(set(parts), edges)
    component = {
        index: min(other for other in parts if other == index or {(index, other), (other, index)} <= reachable)
        for index in parts
    }
    # A component comes after all components from which it is reachable.
    above = {
        index: {writer for writer, reader in edges if component[reader] == component[index] != component[writer]}
        for index in parts
    }
    rank = {index: sum((other, index) in reachable for other in parts) for index in component.values()}
    ordered = sorted(parts, key=lambda index: (rank[component[index]], component[index], index))
    # A record can pass each topic inside a component once.
    inside = [
        component[writers[t]] for t, readers in targets.items() if component[writers[t]] in map(component.get, readers)
    ]
    depths: dict[int, int] = {}
    for index in ordered:
        depths[index] = max((depths[other] + inside.count(component[other]) + 1 for other in above[index]), default=0)
    delays = {topic: depths[writer] + inside.count(component[writer]) + 1 for topic, writer in writers.items()}
    return ExchangeGraph(
        writers,
        {topic: tuple(sorted(readers)) for topic, readers in targets.items()},
        {index: component[index] for index in ordered},
        depths,
        delays,
    )


def _closure(nodes: set[int], edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs of nodes of which the second is reachable from the first by at least one edge."""
    reachable = set(edges)
    for middle in nodes:
        into = [source for source, target in reachable if target == middle]
        out = [target for source, target in reachable if source == middle]
        reachable.update((source, target) for source in into for target in out)
    return reachable
