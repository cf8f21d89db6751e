"""The internal side of cogrouped streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.callsite import caller
from millstream.core.frozen import Frozen
from millstream.dsl.grouping import ADD, AggregateNode, NewAggregate, RecordGrouping, store_name
from millstream.dsl.internals import JOINER, declared_serde
from millstream.dsl.options import Materialized
from millstream.dsl.windowing import WindowedGrouping, check_window
from millstream.plan.aggregates import Aggregation, Cogroup

if TYPE_CHECKING:
    from millstream.dsl.table import Table
    from millstream.plan.builder import Builder
    from millstream.plan.functions import Function
    from millstream.plan.node import Node
    from millstream.plan.windows import Window


class Cogrouping(Frozen):
    """Several groupings of one application that are aggregated into one table.

    Attributes:
        parts: The groupings and their aggregators.
        window: The windows, if any.
    """

    parts: tuple[tuple[RecordGrouping[Any], Function], ...]
    window: Window | None = None

    @property
    def builder(self) -> Builder:
        """The topology under construction."""
        return self.parts[0][0].builder

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes whose outputs are grouped."""
        return tuple(grouping.output.node for grouping, _ in self.parts)

    def with_part(self, grouping: RecordGrouping[Any], aggregator: Any) -> Cogrouping:
        """Returns this cogrouping with one more part."""
        part = (grouping, grouping.function(aggregator, "aggregator", ADD))
        return Cogrouping((*self.parts, part), self.window)

    def windowed_by(self, window: Window) -> Cogrouping:
        """Returns this cogrouping with windows."""
        return Cogrouping(self.parts, check_window(window, "update"))

    def aggregate(self, initializer: Any, merger: Any, value: Any, store: Any, name: str | None) -> Table[Any, Any]:
        """Adds one aggregation for each part, which share the rows of the first, and merges their results."""
        groupings = [grouping for grouping, _ in self.parts]
        if self.window is not None:
            groupings = [WindowedGrouping(grouping, self.window, "update") for grouping in groupings]
        first, builder = groupings[0], self.builder
        first.check_merger("cogroup", merger)
        options = Materialized.of(store)
        label = builder.name(name, "cogroup", *self.nodes)
        stem = builder.stem("cogroup", *self.nodes) if name is None else name
        lineage = options.name if options.name is not None else stem
        rows = store_name(builder, options, name, stem)
        init = first.function(initializer, "initializer", ())
        merge = None if merger is None else first.function(merger, "merger", JOINER)
        topic = options.name if options.name is not None else name
        inputs = [
            grouping.partitioned(None if topic is None else f"{topic}-{index}", f"{stem}-{index}")
            for index, grouping in enumerate(groupings, start=1)
        ]
        serde = builder.serde(declared_serde(value, "value") or builder.result_serde(None, init, "value"), "value")
        nodes: list[AggregateNode] = []
        for grouping, parent, (_, add) in zip(groupings, inputs, self.parts, strict=True):
            part = builder.name(None, f"part-{len(nodes) + 1}", base=label)
            aggregation = Aggregation("aggregate", init=init, add=add, merge=merge)
            owner = nodes[0] if nodes else None
            node = grouping.node(NewAggregate(part, parent, aggregation, options, rows, serde, owner))
            nodes.append(builder.add(node, lineage=lineage))
        merged = builder.add(Cogroup(name=label, at=caller(), inputs=tuple(nodes)), lineage=lineage)
        aggregates = tuple(parent.then(node) for parent, node in zip(inputs, nodes, strict=True))
        table: Table[Any, Any] = first.table(merged, nodes[0].store, aggregates)
        return table
