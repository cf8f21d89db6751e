"""Merges several repartitions below one change of key into one, directly below the change."""

from __future__ import annotations

from millstream.core.frozen import replace
from millstream.optimize.rewrite import with_references
from millstream.plan.node import Node, Plan
from millstream.plan.stateless import Repartition

Path = tuple[Node, ...]


def merge_repartitions(plan: Plan) -> Plan:
    """Replaces the repartitions below a change of key by one, directly below it.

    Only repartitions that Millstream added are merged, and only if the operators in between keep records unchanged
    (`Node.keeps_records`); these operators move behind the repartition. An operator whose output something else reads
    also stays where it is.
    """
    groups = _groups(plan)
    if not groups:
        return plan
    merged = {repartition: path for group in groups.values() for repartition, path in group.items()}
    moved = {node for path in merged.values() for node in path}
    staying = _staying(plan, moved, set(merged))
    new: dict[Node, Node] = {}
    behind: dict[Node, Node] = {}  # the node that replaces a node behind the repartition
    nodes: list[Node] = []
    for node in plan.nodes:
        if node in merged:
            new[node] = behind[node.parents[0]]
            continue
        if node not in moved or node in staying:
            new[node] = with_references(node, new)
            nodes.append(new[node])
        if node in moved:
            name = f"{node.name}-repartitioned" if node in staying else node.name
            behind[node] = replace(node, name=name, parent=behind[node.parents[0]])
            nodes.append(behind[node])
        if node in groups:
            first = next(iter(groups[node]))
            behind[node] = replace(first, parent=new[node])
            nodes.append(behind[node])
    return plan.with_nodes(tuple(nodes))


def _groups(plan: Plan) -> dict[Node, dict[Repartition, Path]]:
    """Returns the mergeable repartitions, by the change of key that they follow, with the operators in between."""
    groups: dict[Node, dict[Repartition, Path]] = {}
    for repartition in plan.of_type(Repartition):
        path: list[Node] = []
        above = repartition.parent
        while above.keeps_records:
            path.insert(0, above)
            (above,) = above.parents
        group = groups.get(above, {})
        same = all((r.key.name, r.value.name) == (repartition.key.name, repartition.value.name) for r in group)
        if repartition.mergeable and above.changes_key and above.edge == "stream" and same:
            groups.setdefault(above, {})[repartition] = tuple(path)
    return {node: group for node, group in groups.items() if len(group) > 1}


def _staying(plan: Plan, moved: set[Node], merged: set[Repartition]) -> set[Node]:
    """Returns the moved operators whose output something else also reads."""
    staying: set[Node] = set()
    for node in reversed(plan.nodes):
        if node in merged or (node in moved and node not in staying):
            continue
        staying.update(parent for parent in node.parents if parent in moved)
    return staying
