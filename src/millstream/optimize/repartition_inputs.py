"""Sends the records of input topics through repartition topics, so that they are partitioned as the state needs it."""

from __future__ import annotations

from collections.abc import Collection

from millstream.core.frozen import replace
from millstream.optimize.bind_serdes import bind_serdes
from millstream.optimize.rewrite import with_references
from millstream.plan.node import Node, Plan
from millstream.plan.sources import Source, ToTable
from millstream.plan.stateless import Repartition


def repartition_inputs(plan: Plan, sources: Collection[str]) -> Plan:
    """Inserts a repartition below some sources.

    Args:
        plan: The plan.
        sources: The names of the sources.
    """
    new: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in plan.nodes:
        changed = with_references(node, new)
        if isinstance(changed, ToTable) and changed.parent is not node.parents[0]:
            changed = replace(changed, reuse_source=False)  # the store is partitioned in another way than the topic
        new[node] = changed
        nodes.append(changed)
        if isinstance(node, Source) and node.name in sources:
            new[node] = Repartition(
                name=repartition_of(node.name),
                at=node.at,
                parent=changed,
                topic=node.name,
                key=node.key,
                value=node.value,
            )
            nodes.append(new[node])
    return bind_serdes(plan.with_nodes(tuple(nodes)))


def repartition_of(source: str) -> str:
    """The name of the repartition below a source."""
    return f"{source}-repartition"
