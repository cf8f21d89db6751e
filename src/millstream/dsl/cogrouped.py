"""Aggregates over several grouped streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from millstream.core.callsite import caller
from millstream.dsl import grouped as groupings, table as tables
from millstream.dsl.grouping import ADD, MERGE, store_name
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
from millstream.dsl.suggesting import suggesting_methods
from millstream.dsl.windowed import add_window_aggregate, check_merger, check_window, windowed_key
from millstream.errors import TopologyError
from millstream.plan.aggregates import Aggregate, Aggregation, Cogroup
from millstream.plan.node import Node
from millstream.plan.windows import Window

if TYPE_CHECKING:
    from millstream.core.records import Windowed
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.table import Table, WindowedTable

K = TypeVar("K")
A = TypeVar("A")
VO = TypeVar("VO")


@suggesting_methods
class CogroupedStream(Generic[K, A]):
    """An aggregate over several grouped streams, each with an aggregator of its own; the rows are shared."""

    def __init__(self, parts: tuple[tuple[GroupedStream[K, Any], Any], ...], window: Window | None = None) -> None:
        self._parts = parts
        self._window = window

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(grouped._stream._node.name for grouped, _function in self._parts)})"

    def cogroup(
        self, grouped: GroupedStream[K, VO], aggregator: Callable[[K, VO, A], A] | Callable[[VO, A], A]
    ) -> CogroupedStream[K, A]:
        """Adds another grouped stream and its aggregator."""
        if not isinstance(grouped, groupings.GroupedStream):
            raise TopologyError(
                f"cogroup: expected a grouped stream, got {grouped!r}", hint="group it first: stream.group_by_key()"
            )
        function = grouped._function(aggregator, ADD, "aggregator")
        return type(self)((*self._parts, (grouped, function)), self._window)

    def windowed_by(self, window: Window) -> WindowedCogroupedStream[K, A]:
        """Aggregates in windows of time."""
        return WindowedCogroupedStream(self._parts, check_window(window, "update"))

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A] | Callable[[A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[Any, A]:
        """Makes the table.

        Args:
            initializer: Makes the first aggregate of a row.
            merger: For session windows: gives the aggregate of two sessions that have become one.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        check_merger("cogroup", self._window, merger)
        first = self._parts[0][0]
        builder = first._stream._builder
        options = Materialized.of(store)
        label = builder.name(name, "cogroup", *(g._stream._node for g, _ in self._parts))
        given = options.name if options.name is not None else name
        stem = builder.stem("cogroup", *(g._stream._node for g, _ in self._parts)) if name is None else name
        lineage = options.name if options.name is not None else stem
        rows = store_name(builder, options, name, stem)
        init = first._function(initializer, (), "initializer")
        merge = None if merger is None else first._function(merger, MERGE, "merger")
        inputs = [
            grouped._partitioned(None if given is None else f"{given}-{index}", f"{stem}-{index}")
            for index, (grouped, _) in enumerate(self._parts, start=1)
        ]
        serde = first._stream._given(value, "value") or builder.result_serde(None, init, "value")
        nodes: list[Node] = []
        for index, (parent, (_, add)) in enumerate(zip(inputs, self._parts, strict=True)):
            aggregation = Aggregation("aggregate", init=init, add=add, merge=merge)
            part = builder.name(None, f"part-{index + 1}", base=label)
            owner = None if index == 0 else nodes[0]
            if self._window is None:
                key = builder.serde(parent._key, "key")
                spec = key_value(options, rows, key, builder.serde(serde, "value"))
                node: Node = Aggregate(
                    name=part,
                    at=caller(),
                    parent=parent._node,
                    aggregation=aggregation,
                    store=spec,
                    shared=owner,
                )
                builder.add(node, lineage=lineage)
            else:
                node = add_window_aggregate(
                    builder,
                    parent,
                    aggregation,
                    self._window,
                    options,
                    serde,
                    part,
                    store=rows,
                    lineage=lineage,
                    shared=owner,
                )
            nodes.append(node)
        merged = Cogroup(name=label, at=caller(), inputs=tuple(nodes))
        builder.add(merged, lineage=lineage)
        spec = nodes[0].store  # type: ignore[attr-defined]
        if self._window is None:
            return tables.Table(builder, merged, spec.key, spec.value)
        late = tuple((node, parent._key, parent._value) for node, parent in zip(nodes, inputs, strict=True))
        return tables.WindowedTable(builder, merged, windowed_key(spec.key, self._window), spec.value, late)


@suggesting_methods
class WindowedCogroupedStream(CogroupedStream[K, A]):
    """An aggregate over several grouped streams in windows; made by `CogroupedStream.windowed_by`."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A] | Callable[[A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], A]:
        """Makes the table; see `CogroupedStream.aggregate`."""
        table = super().aggregate(initializer, merger, value=value, store=store, name=name)
        return cast("WindowedTable[Windowed[K], A]", table)
