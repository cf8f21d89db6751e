"""Decides where each sub-topology runs: where records are read, or in the tasks that have state.

A sub-topology that remembers nothing runs where its topics are read. What it sends through a repartition topic then
goes straight to the task that the new key belongs to: the first exchange needs no topic.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.frozen import fields
from millstream.plan import stateless
from millstream.plan.node import Node, Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition
from millstream.stages.subtopology import SubTopology, Topology

_PURE: tuple[type[Node], ...] = (
    Source,
    Repartition,
    stateless.Filter,
    stateless.SelectKey,
    stateless.Map,
    stateless.MapValues,
    stateless.FlatMap,
    stateless.FlatMapValues,
    stateless.Peek,
    stateless.Foreach,
    stateless.Branch,
    stateless.BranchOutput,
    stateless.Merge,
    stateless.Sink,
)
_UNORDERED = tuple(kind for kind in _PURE if kind is not stateless.Sink)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the sub-topologies run.

    Attributes:
        readers: Those that run where their topics are read.
        tasks: Those that run in tasks, with their state.
        direct: The repartitions that need no topic, because a reader deals their records to the tasks.
    """

    readers: tuple[Topology, ...]
    tasks: tuple[Topology, ...]
    direct: frozenset[Repartition]


def place(topology: Topology) -> Placement:
    """Decides where the sub-topologies of a topology run."""
    readers = [part for part in topology.parts if _needing(part) is None]
    tasks = [only(topology, part) for part in topology.parts if part not in readers]
    direct = {node for part in readers for node in part.nodes if isinstance(node, Repartition)}
    looked_up = {node for task in tasks for node in task.plan.nodes}
    alone = tuple(table for table in topology.global_tables if table not in looked_up)
    if alone:  # nothing reads them but queries
        tasks.append(Topology(Plan(topology.application_id, alone), topology.facts, ()))
    return Placement(tuple(only(topology, part) for part in readers), tuple(tasks), frozenset(direct))


def needs_tasks(topology: Topology) -> Node | None:
    """The first operator that can only run in a task; None if the topology has no tasks."""
    found = (node for part in topology.parts if (node := _needing(part)) is not None)
    return next(found, None) or next(iter(topology.global_tables), None)


def only(topology: Topology, part: SubTopology) -> Topology:
    """Returns one sub-topology as a topology of its own, with the global tables that it looks up."""
    wanted: set[Node] = {*part.nodes, *part.sources}
    for node in part.nodes:
        values = (getattr(node, field) for field in fields(node))
        wanted.update(value for value in values if isinstance(value, GlobalTable))
        owners = (topology.plan.store(name)[0] for name in node.reads_stores)
        wanted.update(owner for owner in owners if isinstance(owner, GlobalTable))
    plan = Plan(topology.application_id, tuple(node for node in topology.plan.nodes if node in wanted))
    return Topology(plan, topology.facts, (part,))


def _needing(part: SubTopology) -> Node | None:
    """The operator because of which a sub-topology needs a task; None if it can run where its topics are read."""
    topics = 0
    for source in part.sources:
        if not isinstance(source, Source) or not _is_timed_alone(source):
            return _first_but(part, _PURE) or source
        topics += len(source.topics) if source.pattern is None else 2
    # Only a task brings the records of several topics into one order, as what is written to a topic must have.
    return _first_but(part, _PURE if topics == 1 else _UNORDERED)


def _first_but(part: SubTopology, kinds: tuple[type[Node], ...]) -> Node | None:
    return next((node for node in part.nodes if not isinstance(node, kinds)), None)


def _is_timed_alone(source: Source) -> bool:
    """Whether the time of a record depends on nothing but the record."""
    timestamps = source.timestamps
    if timestamps.source == "function":
        return timestamps.function is not None and "partition_time" not in timestamps.function.roles
    return timestamps.source == "wall_clock" or timestamps.on_invalid != "partition_time"
