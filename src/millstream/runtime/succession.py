"""Whether a topology can go on with what an earlier one of the application has left behind.

Plans tell most of it. What they do not tell is whether Spark has a checkpoint that it could use, and whether there are
records on their way through a topic that is read no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from millstream.log.api import Log, Published
from millstream.plan.compare import BEGIN_AGAIN, Change, Comparison, compare
from millstream.plan.fingerprint import PlainPlan, to_dict
from millstream.plan.stateless import Repartition
from millstream.runtime.checkpoint import local_path
from millstream.stages import Topology
from millstream.stages.placement import needs_tasks, place

STATEFUL = "stateful"
"""Under this name the log knows whether the application that last ran has tasks: b"1" or b"0"."""

_MIGRATE = "make a new checkpoint, with named stores rebuilt from their changelogs: millstream migrate; or "
_READ_ON = "start the former topology once more, with run(until_caught_up=True), and then this one; or "


def compare_with_last(topology: Topology, known: Mapping[str, bytes], log: Log, checkpoint: str) -> Comparison:
    """Compares a topology with the one that last ran.

    Args:
        topology: The one that is to run.
        known: What the log knows of the application: the topology that last ran, too.
        log: The log.
        checkpoint: Where the checkpoint of the application is.
    """
    old = json.loads(known["plan"])
    published = log.published(topology.application_id)
    found = compare(old, topology.plan)
    if published is not None:
        found = replace(found, topics=tuple(_with_unread(found.topics, topology, old, published, log)))
    if not _has_begun(checkpoint, known, published):
        return found
    remedy = BEGIN_AGAIN if published is None else _MIGRATE + BEGIN_AGAIN
    return replace(found, checkpoint=tuple(_other_shape(topology, had_tasks(known, published), remedy)))


def had_tasks(known: Mapping[str, bytes], published: Published | None) -> bool | None:
    """Whether the application that last ran had tasks; None if nobody can tell any more.

    Earlier versions did not write it down. Then what tasks remembered tells, unless a migration came after it.
    """
    if STATEFUL in known:
        return known[STATEFUL] == b"1"
    if published is None:
        return None
    remembered = any(name.startswith("cells.") for name in known)
    return None if remembered and "base" in known else remembered


def last_batch(folder: Path) -> int:
    """The greatest number of a batch in a folder of a checkpoint; -1 if there is none."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def _has_begun(checkpoint: str, known: Mapping[str, bytes], published: Published | None) -> bool:
    """Whether Spark has begun a batch with a checkpoint; of one on no disk of this machine, only results tell."""
    local = local_path(checkpoint)
    if local is not None:
        return last_batch(local / "offsets") >= 0
    return published is not None and published.batch >= int(known.get("base", b"0"))


def _with_unread(
    topics: Iterable[Change], topology: Topology, old: PlainPlan, published: Published, log: Log
) -> Iterator[Change]:
    """A repartition that is dealt at once now, or is gone, may have left records in its topic.

    They stand in the way if what they were meant for is still there: the repartition, an operator right below it, or
    the store of one. Else nobody misses them.
    """
    direct = place(topology).direct
    read = {topology.topic_of(node) for node in topology.plan.of_type(Repartition) if node not in direct}
    there = {topic.name for topic in log.topics()} - read
    new = to_dict(topology.plan)
    for change in topics:
        name = f"{topology.application_id}-{change.name}-repartition"
        reader = _reader_of(change.name, old, new) if name in there else None
        ends = enumerate(log.ends([name])[name] if reader is not None else [])
        unread = sum(max(0, end - published.offsets.get((name, partition), 0)) for partition, end in ends)
        if reader is None or not unread:
            yield change
            continue
        reasons = (*change.reasons, f"the topic {name} has {unread} records that were not read, and is read no more")
        yield Change(change.name, "incompatible", reader, reasons, remedy=_READ_ON + BEGIN_AGAIN)


def _reader_of(topic: str, old: PlainPlan, new: PlainPlan) -> str | None:
    """The operator that is still there of those which the records of a repartition were meant for; None if none is."""
    operators, stores = old["operators"], old["stores"]
    is_it = {n: o["kind"] == "repartition" and o["options"]["topic"] == topic for n, o in operators.items()}
    meant = [n for n, o in operators.items() if is_it[n] or any(is_it[parent] for parent in o["parents"])]
    kept = [n for n, store in stores.items() if store["operator"] in meant and n in new["stores"]]
    found = [n for n in meant if n in new["operators"]] + [new["stores"][n]["operator"] for n in kept]
    return next(iter(found), None)


def _other_shape(topology: Topology, had: bool | None, remedy: str) -> Iterator[Change]:
    """Spark's query has a stateful operator only if there are tasks. A checkpoint is of such a query, or of another."""
    node = needs_tasks(topology)
    if had is False and node is not None:
        reason = f"no operator needed state so far, and {node.name} ({node.at}) needs it"
        yield Change("checkpoint", "incompatible", node.name, (reason,), remedy=remedy)
    if had is True and node is None:
        reason = "operators needed state so far, and none does any more"
        yield Change("checkpoint", "incompatible", "", (reason,), remedy=remedy)
