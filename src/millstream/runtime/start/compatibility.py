"""Compatibility of a topology with the state that an earlier topology of the application has left.

The comparison of the plans decides most of it. Two things are not in the plans: whether the query of Spark keeps its
shape, and whether a repartition topic that is not read any more contains unread records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from millstream.log.api import Log, Offsets, Published, Scope
from millstream.plan.compare import Change, Comparison, compare
from millstream.plan.fingerprint import PlainPlan, essence, to_dict
from millstream.plan.side import BEGIN_AGAIN
from millstream.plan.stateless import Repartition
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.checkpoint import last_batch, local_path
from millstream.stages import Topology
from millstream.stages.placement import Placement, needs_tasks

_MIGRATE = "make a new checkpoint, with named stores rebuilt from their changelogs: millstream migrate; or "
_READ_ON = "start the former topology once more, with run(until_caught_up=True), and then this one; or "


def compare_with_last(
    topology: Topology,
    placement: Placement,
    state: ApplicationState,
    log: Log,
    checkpoint: str,
    read: Offsets | None = None,
) -> Comparison:
    """Compares a topology with the one that last ran.

    Args:
        topology: The topology to run.
        placement: Where its sub-topologies will run.
        state: The recorded state of the application.
        log: The log.
        checkpoint: Path or URL of the checkpoint.
        read: The offsets up to which topics were read, if others than those of the last batch.
    """
    published = log.applications.published(Scope(topology.application_id))
    old = state.published_plan
    comparison = compare(topology.plan if old is None else old, topology.plan)
    if old is not None and published is not None:
        topics = tuple(
            _with_unread(comparison.topics, topology, placement, old, published.offsets if read is None else read, log)
        )
        comparison = replace(comparison, topics=topics)
    if not _has_begun(checkpoint, state, published):
        return comparison
    remedy = BEGIN_AGAIN if published is None else _MIGRATE + BEGIN_AGAIN
    return replace(comparison, checkpoint=tuple(_other_shape(topology, state.stateful, remedy)))


def plain(topology: Topology) -> PlainPlan:
    """The plan of a topology in the form in which it is recorded."""
    plan: PlainPlan = json.loads(json.dumps(to_dict(topology.plan)))
    return plan


def same_plan(one: PlainPlan, other: PlainPlan) -> bool:
    """Whether two plans are the same, but for the code of Python functions."""
    return essence(one) == essence(other)


def is_stateful(topology: Topology) -> bool:
    """Whether a topology has tasks."""
    return needs_tasks(topology) is not None


def facts_of(topology: Topology, complete: Iterable[str]) -> ApplicationState:
    """The facts that are recorded with the first batch of a topology; *complete*: see `complete_changelogs`."""
    return ApplicationState(
        published_plan=plain(topology), stateful=is_stateful(topology), complete_changelogs=sorted(complete)
    )


def complete_changelogs(logged: Iterable[str], state: ApplicationState) -> frozenset[str]:
    """Of the stores that have a changelog, those whose changelog contains all of their rows.

    A changelog that was switched off for a while lacks the changes of that time.

    Args:
        logged: The stores that have a changelog.
        state: The recorded state of the application.
    """
    if state.published_plan is None or state.complete_changelogs is None:
        return frozenset(logged)
    before, stores = state.complete_changelogs, state.published_plan["stores"]
    return frozenset(name for name in logged if name in before or name not in stores)


def _has_begun(checkpoint: str, state: ApplicationState, published: Published | None) -> bool:
    """Whether a batch was begun with a checkpoint. For one on other machines, a published batch is the evidence."""
    local = local_path(checkpoint)
    if local is not None:
        return last_batch(local / "offsets") >= 0
    return published is not None and published.batch >= state.first_batch


def _with_unread(
    topics: Iterable[Change], topology: Topology, placement: Placement, old: PlainPlan, read_to: Offsets, log: Log
) -> Iterator[Change]:
    """Marks repartitions that are removed, or need no topic any more, and whose topic contains unread records.

    They are incompatible if a receiver of the records still exists: the repartition, an operator right below it, or the
    store of one. Otherwise the records are not needed.
    """
    read = {topology.topic_of(node) for node in topology.plan.of_type(Repartition) if node not in placement.direct}
    unused = {topic.name for topic in log.topics()} - read
    new = to_dict(topology.plan)
    for change in topics:
        name = f"{topology.application_id}-{change.name}-repartition"
        reader = _reader_of(change.name, old, new) if name in unused else None
        ends = enumerate(log.ends([name])[name] if reader is not None else [])
        unread = sum(max(0, end - read_to.get((name, partition), 0)) for partition, end in ends)
        if reader is None or not unread:
            yield change
            continue
        reason = f"the topic {name} has {unread} unread records, and the new topology does not read it"
        yield Change(change.name, "incompatible", reader, (*change.reasons, reason), remedy=_READ_ON + BEGIN_AGAIN)


def _reader_of(topic: str, old: PlainPlan, new: PlainPlan) -> str | None:
    """An operator of the new plan that the records of a repartition were sent to; None if there is none."""
    operators, stores = old["operators"], old["stores"]
    receivers = _below(topic, operators)
    kept = [n for n, store in stores.items() if store["operator"] in receivers and n in new["stores"]]
    topics = {o["options"].get("topic") for n, o in operators.items() if n in receivers and o["kind"] == "sink"}
    sinks = [n for n, o in new["operators"].items() if o["kind"] == "sink" and o["options"].get("topic") in topics]
    remaining = [n for n in receivers if n in new["operators"]]
    return next(iter([*remaining, *(new["stores"][n]["operator"] for n in kept), *sinks]), None)


def _below(topic: str, operators: Mapping[str, Any]) -> list[str]:
    """A repartition, and the operators that its records reach before another topic, in the order of the plan."""
    names: list[str] = []
    for name, operator in operators.items():
        if operator["kind"] == "repartition":
            if operator["options"]["topic"] == topic:
                names.append(name)
        elif any(parent in names for parent in operator["parents"]):
            names.append(name)
    return names


def _other_shape(topology: Topology, had: bool | None, remedy: str) -> Iterator[Change]:
    """Spark's query has a stateful operator only if there are tasks, and its checkpoint fits one of both shapes."""
    node = needs_tasks(topology)
    if had is False and node is not None:
        reason = f"the topology was stateless so far, and {node.name} ({node.at}) needs state"
        yield Change("checkpoint", "incompatible", node.name, (reason,), remedy=remedy)
    if had is True and node is None:
        reason = "the topology was stateful so far, and no operator needs state any more"
        yield Change("checkpoint", "incompatible", "", (reason,), remedy=remedy)
