"""The dependencies between the operators of a plan: which tables are materialized, and which send old values.

The analysis visits the nodes in the order of the user's calls, as Kafka Streams does. The order matters: a filter sends
old values only if the table above it was already materialized when the filter was added.
"""

from __future__ import annotations

from millstream.plan.node import Node, Plan
from millstream.state.spec import StoreSpec


class PlanFacts:
    """The results of the analysis of a plan.

    Attributes:
        kept: The nodes, of those that are not always materialized, whose stores exist.
        sends_old: The table operators that send the old value of a row with each change.
        null_keys: The nodes that must pass records without a key, because an operator below uses them.
    """

    def __init__(self, plan: Plan) -> None:
        self.kept: set[Node] = set()
        self.sends_old: set[Node] = set()
        self.null_keys: set[Node] = set()
        owners = {spec.name: node for node in plan.nodes for spec in node.stores}
        for node in plan.nodes:
            self._visit(node)
            for name in node.reads_stores:
                self._keep(owners[name])
        for node in plan.nodes:
            if node.needs_null_keys:
                self._pass_null_keys_to(node)
        self.null_keys.update(n for n in plan.nodes if any(parent.sends_messages for parent in n.parents))

    def stores_of(self, node: Node) -> tuple[StoreSpec, ...]:
        """Returns the stores of a node that exist when the plan runs."""
        if node.materialized != "always" and node not in self.kept:
            return ()
        unused = () if node in self.sends_old else {spec.name for spec in node.old_value_stores}
        return tuple(spec for spec in node.stores if spec.name not in unused)

    def _visit(self, node: Node) -> None:
        if node.materialized == "on_demand" and any(spec.named for spec in node.stores):
            self.kept.add(node)
        if node.takes_old_values and all(self._send_old(parent, force=False) for parent in node.parents):
            self.sends_old.add(node)
        for table in node.looks_up:
            self._keep(table)
        for table in node.needs_old_values_of:
            self._send_old(table, force=True)

    def _keep(self, node: Node) -> None:
        """Makes the rows of a table available for look-ups."""
        if node.materialized != "always":
            self.kept.add(node)
        for table in node.rows_from:
            self._keep(table)

    def _send_old(self, node: Node, *, force: bool) -> bool:
        """Makes a table send old values; returns whether it can. With ``force``, tables are materialized for it."""
        if node.edge != "table":
            return False
        if node.materialized != "always":
            if not force and node not in self.kept:
                return False
            self.kept.add(node)
        answers = [self._send_old(table, force=force) for table in node.old_values_from]
        if not all(answers):
            return node in self.sends_old
        self.sends_old.add(node)
        return True

    def _pass_null_keys_to(self, join: Node) -> None:
        above = [*join.parents]
        while above:
            node = above.pop()
            if node not in self.null_keys:
                self.null_keys.add(node)
                above.extend(node.parents)
