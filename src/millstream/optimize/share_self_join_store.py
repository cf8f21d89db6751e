"""Stores the records of a stream that is joined with itself once, instead of once for each side."""

from __future__ import annotations

from millstream.core.frozen import replace
from millstream.optimize.rewrite import rewrite
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Plan


def share_self_join_store(plan: Plan) -> Plan:
    """Marks the inner joins of a stream with itself, which need one store."""

    def change(node: Node) -> Node:
        if isinstance(node, StreamStreamJoin) and node.how == "inner" and node.left is node.right:
            return replace(node, single_store=True)
        return node

    return rewrite(plan, change)
