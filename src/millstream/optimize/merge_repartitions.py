"""Several repartitions below one change of key can be one, right below the change."""

from __future__ import annotations

from millstream.core.frozen import replace
from millstream.optimize.rewrite import with_references
from millstream.plan.node import Node, Plan
from millstream.plan.stateless import Filter, Peek, Repartition

Path = tuple[Filter | Peek, ...]


def merge_repartitions(plan: Plan) -> Plan:
    """Replaces the repartitions below a change of key by one, directly below it.

    Only repartitions that no user asked for take part, and only where nothing but operators that change neither keys
    nor values is between; these come behind the repartition then. If something else reads what they give, they stay
    where they are, too.
    """
    groups = _groups(plan)
    if not groups:
        return plan
    merged = {repartition: path for group in groups.values() for repartition, path in group.items()}
    moved = {node for path in merged.values() for node in path}
    staying = _staying(plan, moved, set(merged))
    new: dict[Node, Node] = {}
    behind: dict[Node, Node] = {}  # what stands for a node on the other side of the repartition
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
    return Plan(plan.application_id, tuple(nodes))


def _groups(plan: Plan) -> dict[Node, dict[Repartition, Path]]:
    """The repartitions that can be merged, by the change of key that they follow, with what is between."""
    found: dict[Node, dict[Repartition, Path]] = {}
    for repartition in plan.of_type(Repartition):
        path: list[Filter | Peek] = []
        above = repartition.parent
        while isinstance(above, Filter | Peek):
            path.insert(0, above)
            above = above.parent
        group = found.get(above, {})
        same = all(r.key.name == repartition.key.name and r.value.name == repartition.value.name for r in group)
        if repartition.mergeable and above.changes_key and above.edge == "stream" and same:
            found.setdefault(above, {})[repartition] = tuple(path)
    return {node: group for node, group in found.items() if len(group) > 1}


def _staying(plan: Plan, moved: set[Filter | Peek], merged: set[Repartition]) -> set[Node]:
    """The operators between that something else reads, too."""
    staying: set[Node] = set()
    for node in reversed(plan.nodes):
        if node in merged or (node in moved and node not in staying):
            continue
        staying.update(parent for parent in node.parents if parent in moved)
    return staying
