"""Uses the source topic of a table as its changelog: the topic contains all values."""

from __future__ import annotations

from millstream.core.frozen import replace
from millstream.optimize.rewrite import rewrite
from millstream.plan.contracts import contract_of
from millstream.plan.node import Node, Plan
from millstream.plan.sources import ToTable


def reuse_source_topics(plan: Plan) -> Plan:
    """Marks the tables whose source topic serves as the changelog.

    A topic with a contract may have records that are not in the table.
    """

    def change(node: Node) -> Node:
        if isinstance(node, ToTable) and node.source_topic is not None and contract_of(node.parent) is None:
            return replace(node, reuse_source=True, store=replace(node.store, logged=False))
        return node

    return rewrite(plan, change)
