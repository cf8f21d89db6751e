"""Decides where each sub-topology runs: where records are read, or in tasks.

An execution with a shuffle runs sub-topologies without state where their topics are read, and routes the records of
their exchanges through the shuffle to the task of the new key: the first exchange needs no topic. The same holds for
each exchange of a sub-topology with state that has only pure operators between the input topics and itself. These
operators run twice if other operators of the sub-topology need them, too: where topics are read, and in the task. In
an execution without a shuffle every exchange is a topic, and every sub-topology runs in tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millstream.plan.node import Node, Plan
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition
from millstream.stages.subtopology import SubTopology, Topology


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the sub-topologies run.

    Attributes:
        readers: The sub-topologies that run where their topics are read.
        tasks: The sub-topologies that run in tasks; also the global tables that only queries read, if there are any.
        direct: The repartitions without a topic: readers route their records to tasks through the shuffle.
        shared: The operators that run in readers and in tasks, or in a part that was split off and in the one that is
            left. Tasks, and the part that is left, report their errors and drops.
    """

    readers: tuple[Topology, ...]
    tasks: tuple[Topology, ...]
    direct: frozenset[Repartition]
    shared: frozenset[Node] = frozenset()


def place(topology: Topology, *, shuffle: bool = True) -> Placement:
    """Decides where the sub-topologies of a topology run.

    Args:
        topology: The topology.
        shuffle: The execution has a shuffle between the readers and the tasks. Without it, operators above an exchange
            are split off only where they would make a cycle of internal topics: the order inside is not kept.
    """
    reading: list[SubTopology] = []
    processing: list[SubTopology] = []
    split_off: list[SubTopology] = []
    cyclic = set() if shuffle else _in_cycles(topology)
    first_free = 1 + max((part.index for part in topology.parts), default=0)
    for part in topology.parts:
        if shuffle and _needing_task(part) is None:
            reading.append(part)
        elif (shuffle or part.index in cyclic) and (prefix := _pure_prefix(part)) is not None:
            if shuffle:
                reading.append(prefix)
            else:
                split_off.append(replace(prefix, index=first_free + part.index, is_split_off=True))
            processing.append(_without(part, prefix.repartitions))
        else:
            processing.append(part)
    tasks = [only(topology, part) for part in (*split_off, *processing)]
    looked_up = {node for task in tasks for node in task.plan.nodes}
    unread = tuple(table for table in topology.global_tables if table not in looked_up)
    if unread:
        tasks.append(Topology(Plan(topology.application_id, unread), topology.facts, ()))
    return Placement(
        readers=tuple(only(topology, part) for part in reading),
        tasks=tuple(tasks),
        direct=frozenset(node for part in reading for node in part.repartitions),
        shared=frozenset(node for part in (*reading, *split_off) for node in part.nodes).intersection(
            node for part in processing for node in part.nodes
        ),
    )


def needs_tasks(topology: Topology) -> Node | None:
    """Returns the first operator that must run in a task; None if the topology needs no tasks."""
    operators = (node for part in topology.parts if (node := _needing_task(part)) is not None)
    return next(operators, None) or next(iter(topology.global_tables), None)


def only(topology: Topology, part: SubTopology) -> Topology:
    """Returns one sub-topology as a topology of its own, with the global tables that it looks up."""
    included: set[Node] = {*part.nodes, *part.sources}
    for node in part.nodes:
        owners = (topology.plan.store(name)[0] for name in node.reads_stores)
        included.update(table for table in (*node.looks_up, *owners) if table.role == "global")
    plan = Plan(topology.application_id, tuple(node for node in topology.plan.nodes if node in included))
    return Topology(plan, topology.facts, (part,))


def _in_cycles(topology: Topology) -> set[int]:
    """Returns the sub-topologies from which internal topics lead back to them."""
    readers = {source: part.index for part in topology.parts for source in part.sources}
    edges = {(part.index, readers[node]) for part in topology.parts for node in part.repartitions if node in readers}
    reached = edges
    while (further := reached | {(a, d) for a, b in reached for c, d in edges if b == c}) != reached:
        reached = further
    return {start for start, end in reached if start == end}


def _needing_task(part: SubTopology) -> Node | None:
    """Returns the operator because of which a sub-topology needs a task; None if it can run where topics are read."""
    needing = (
        *(node for node in part.nodes if not node.pure),
        *(source for source in part.sources if source.needs_task),
    )
    ordered = (node for node in part.nodes if node.needs_order and _topics(part.sources) > 1)
    return next(iter((*needing, *ordered)), None)


def _topics(sources: Iterable[Node]) -> int:
    """Returns the number of topics that sources read; a pattern may match any number and counts as several."""
    return sum(len(source.topics) if source.pattern is None else 2 for source in sources)


def _pure_prefix(part: SubTopology) -> SubTopology | None:
    """Returns the operators from input topics to exchanges that can run where topics are read; None without any."""
    prefixes = [prefix for node in part.repartitions if (prefix := _prefix_of(node)) is not None]
    nodes = {node for prefix in prefixes for node in prefix}
    left = set(_without(part, tuple(node for node in nodes if isinstance(node, Repartition))).nodes)
    if not nodes or any(node.has_effects for node in nodes & left):
        return None
    return SubTopology(
        part.index,
        tuple(node for node in part.nodes if node in nodes),
        tuple(source for source in part.sources if source in nodes and not isinstance(source, Repartition)),
    )


def _prefix_of(exchange: Repartition) -> set[Node] | None:
    """Returns an exchange and the operators above it, if all of them can run where topics are read."""
    nodes: set[Node] = set()
    pending: list[Node] = [exchange]
    while pending:
        node = pending.pop()
        is_internal = isinstance(node, Repartition) and node is not exchange
        if not node.pure or is_internal or (isinstance(node, Source) and node.needs_task):
            return None
        nodes.add(node)
        pending += (parent for parent in node.parents if parent not in nodes)
    is_ordered = any(node.needs_order for node in nodes)
    return None if is_ordered and _topics(node for node in nodes if isinstance(node, Source)) > 1 else nodes


def _without(part: SubTopology, exchanges: tuple[Repartition, ...]) -> SubTopology:
    """Returns a sub-topology that does not write some exchanges, without the operators that only these need."""
    nodes = [node for node in part.nodes if node not in exchanges]
    while True:
        needed = {parent for node in nodes for parent in node.parents}
        had_children = {parent for node in part.nodes for parent in node.parents}
        kept = [node for node in nodes if node in needed or node not in had_children or not node.pure]
        if len(kept) == len(nodes):
            break
        nodes = kept
    left = set(nodes)
    sources = tuple(source for source in part.sources if isinstance(source, Repartition) or source in left)
    return SubTopology(part.index, tuple(nodes), sources)
