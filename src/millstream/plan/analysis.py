"""What the operators of a plan need of each other: which tables are kept, which send old values, and so on.

The questions are asked in the order in which the user's calls were made, because that is how Kafka Streams decides
them: a filter, for one, tells old values only if the table above it was already kept when the filter was made.
"""

from __future__ import annotations

from typing import TypeAlias

from millstream.plan.aggregates import Aggregate, Cogroup, TableAggregate, TableGroupBy, WindowAggregate
from millstream.plan.joins import (
    ForeignKeyAnswer,
    ForeignKeyResolve,
    ForeignKeySubscribe,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
)
from millstream.plan.node import Node, Plan
from millstream.plan.process import Process
from millstream.plan.sources import ToTable
from millstream.plan.stateless import Repartition
from millstream.plan.tables import Suppress, TableFilter, TableMapValues, TableTransformValues

_Plain: TypeAlias = TableFilter | TableMapValues | TableTransformValues
_AGGREGATES = (Aggregate, WindowAggregate, TableAggregate, Cogroup)


class Facts:
    """What was found out about the nodes of a plan.

    Attributes:
        kept: The tables over topics, and results of foreign-key joins, whose rows are in a store.
        sends_old: The table operators that tell the old value of a row with each change.
        null_keys: The repartitions that let records without a key through.
    """

    def __init__(self, plan: Plan) -> None:
        self.kept: set[Node] = set()
        self.sends_old: set[Node] = set()
        self.null_keys: set[Node] = set()
        owners = {spec.name: node for node in plan.nodes for spec in node.stores}
        for node in plan.nodes:
            self._look_at(node)
            if isinstance(node, Process):
                for name in node.uses:
                    self._keep(owners[name])
        for node in plan.nodes:
            if _wants_null_keys(node):
                self._let_null_keys_reach(node)

    def _look_at(self, node: Node) -> None:
        if isinstance(node, ToTable | ForeignKeyResolve) and node.store.named:
            self.kept.add(node)
        if isinstance(node, TableFilter):
            if self._send_old(node.parent, force=False):
                self.sends_old.add(node)
        elif isinstance(node, TableGroupBy | Suppress | ForeignKeySubscribe):
            self._send_old(node.parent, force=True)
        elif isinstance(node, TableTableJoin):
            for side in node.parents:
                self._keep(side)
            if node.how != "inner":
                self._send_old(node.left, force=True)
            if node.how == "outer":
                self._send_old(node.right, force=True)
        elif isinstance(node, ForeignKeyAnswer):
            self._keep(node.right)
            self._send_old(node.right, force=True)
        elif isinstance(node, StreamTableJoin):
            self._keep(node.table)
        if isinstance(node, ForeignKeyResolve):
            self._keep(node.left)

    def _keep(self, node: Node) -> None:
        """Makes sure that rows of a table can be looked up."""
        if isinstance(node, ToTable | ForeignKeyResolve):
            self.kept.add(node)
        elif (isinstance(node, _Plain) and node.store is None) or isinstance(node, Suppress):
            self._keep(node.parent)
        elif isinstance(node, TableTableJoin) and node.store is None:
            for side in node.parents:
                self._keep(side)

    def _send_old(self, node: Node, *, force: bool) -> bool:
        """Asks a table for old values; returns whether it can give them, which ``force`` makes sure of."""
        if isinstance(node, ToTable | ForeignKeyResolve):
            if not force and node not in self.kept:
                return False
            self.kept.add(node)
        elif isinstance(node, _Plain):
            if node.store is None and not self._send_old(node.parent, force=force):
                return node in self.sends_old
        elif isinstance(node, TableTableJoin):
            for side in node.parents:
                self._send_old(side, force=True)
        elif isinstance(node, Suppress):
            if not self._send_old(node.parent, force=force):
                return False
        elif not isinstance(node, _AGGREGATES):
            return False
        self.sends_old.add(node)
        return True

    def _let_null_keys_reach(self, join: Node) -> None:
        above = [*join.parents]
        seen: set[Node] = set()
        while above:
            node = above.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Repartition):
                self.null_keys.add(node)
            above.extend(node.parents)


def _wants_null_keys(node: Node) -> bool:
    if isinstance(node, StreamStreamJoin | StreamTableJoin | StreamGlobalJoin):
        return node.how != "inner"
    return False
