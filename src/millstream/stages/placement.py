"""Decides where each sub-topology runs: where records are read, or in tasks.

An execution with a shuffle runs sub-topologies without state where their topics are read, and routes the records of
their exchanges through the shuffle to the task of the new key: the first exchange needs no topic. In an execution
without a shuffle every exchange is a topic, and every sub-topology runs in tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.node import Node, Plan
from millstream.plan.stateless import Repartition
from millstream.stages.subtopology import SubTopology, Topology


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the sub-topologies run.

    Attributes:
        readers: The sub-topologies that run where their topics are read.
        tasks: The sub-topologies that run in tasks; also the global tables that only queries read, if there are any.
        direct: The repartitions without a topic: readers route their records to tasks through the shuffle.
    """

    readers: tuple[Topology, ...]
    tasks: tuple[Topology, ...]
    direct: frozenset[Repartition]


def place(topology: Topology, *, shuffle: bool = True) -> Placement:
    """Decides where the sub-topologies of a topology run.

    Args:
        topology: The topology.
        shuffle: The execution has a shuffle between the readers and the tasks.
    """
    reading = [part for part in topology.parts if shuffle and _needing_task(part) is None]
    tasks = [only(topology, part) for part in topology.parts if part not in reading]
    looked_up = {node for task in tasks for node in task.plan.nodes}
    unread = tuple(table for table in topology.global_tables if table not in looked_up)
    if unread:
        tasks.append(Topology(Plan(topology.application_id, unread), topology.facts, ()))
    return Placement(
        readers=tuple(only(topology, part) for part in reading),
        tasks=tuple(tasks),
        direct=frozenset(node for part in reading for node in part.repartitions),
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


def _needing_task(part: SubTopology) -> Node | None:
    """Returns the operator because of which a sub-topology needs a task; None if it can run where topics are read."""
    needing = (
        *(node for node in part.nodes if not node.pure),
        *(source for source in part.sources if source.needs_task),
    )
    # A pattern may match any number of topics.
    topics = sum(len(source.topics) if source.pattern is None else 2 for source in part.sources)
    ordered = (node for node in part.nodes if node.needs_order and topics > 1)
    return next(iter((*needing, *ordered)), None)
