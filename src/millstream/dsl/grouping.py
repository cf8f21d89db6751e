"""Groupings: the internal side of grouped streams, windowed streams and grouped tables.

A grouping adds aggregations to the topology: the repartition before the aggregation, its node and its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from millstream.core.callsite import caller
from millstream.core.frozen import Frozen
from millstream.dsl import table as tables
from millstream.dsl.catalogue import add_calls, check_calls
from millstream.dsl.internals import JOINER, KEY_VALUE, NodeOutput, declared_serde
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
from millstream.errors import TopologyError
from millstream.plan.aggregates import Aggregate, Aggregation, TableAggregate, WindowAggregate
from millstream.plan.node import Node
from millstream.plan.windows import SessionWindow, Window
from millstream.serde import LONG
from millstream.serde.changes import change

if TYPE_CHECKING:
    from millstream.dsl.table import Table
    from millstream.plan.builder import Builder
    from millstream.plan.functions import Function
    from millstream.serde import Serde
    from millstream.state.spec import StoreSpec

TableT = TypeVar("TableT", bound="Table[Any, Any]")
AggregateNode = Aggregate | TableAggregate | WindowAggregate

ADD = (*KEY_VALUE, "agg")
REDUCE = ("agg", "value")


class NewAggregate(Frozen):
    """An aggregation that is added to the topology.

    Attributes:
        label: Name of the node.
        parent: Its input.
        aggregation: The functions.
        options: How the result is stored.
        store: Name of the store, if the options have none.
        value: Serde of the aggregate.
        shared: The node whose store it uses, in a cogroup.
    """

    label: str
    parent: NodeOutput
    aggregation: Aggregation
    options: Materialized
    store: str
    value: Serde[Any]
    shared: AggregateNode | None = None

    def key_value_store(self) -> StoreSpec:
        """Returns the store of an aggregation without windows."""
        return key_value(self.options, self.store, self.parent.key_serde, self.value)


class Grouping(Generic[TableT]):
    """Base of groupings.

    Args:
        output: The records or rows that are grouped.
        name: The user's name of the repartition topic.
    """

    subtracts: ClassVar[bool] = False
    """Whether aggregations also remove values, as those of a table do."""
    aggregate_options: ClassVar[tuple[str, ...]] = ("value", "store", "name")
    """The options of ``aggregate``, which are not names of results."""

    def __init__(self, output: NodeOutput, name: str | None) -> None:
        self.output = output
        self.name = name
        self._shared: NodeOutput | None = None

    @property
    def builder(self) -> Builder:
        """The topology under construction."""
        return self.output.builder

    def function(self, target: Any, option: str, roles: tuple[str, ...] = KEY_VALUE) -> Function:
        """Wraps a function of the user's."""
        return self.output.function(target, option, roles)

    def partitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Returns the output, repartitioned by the key of the groups.

        All aggregations of a named grouping read one repartition topic.

        Args:
            topic: The user's name of the topic, if the grouping has none.
            stem: The name to derive that of the topic from, if the user gave none.
        """
        if self.name is None:
            return self.repartitioned(topic, stem)
        # A call that was refused has removed the nodes that it had added.
        if self._shared is None or self._shared.node not in self.builder.nodes:
            self._shared = self.repartitioned(self.name, stem)
        return self._shared

    def add(
        self, kind: str, aggregation: Aggregation, value: Serde[Any] | None, store: Any, name: str | None
    ) -> TableT:
        """Adds an aggregation and returns its table.

        Args:
            kind: The operator, for derived names.
            aggregation: The functions.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        options = Materialized.of(store)
        stem = self.builder.stem(kind, self.output.node) if name is None else name
        label = self.builder.name(name, kind, self.output.node)
        parent = self.partitioned(options.name if options.name is not None else name, stem)
        rows = store_name(self.builder, options, name, stem)
        node = self.node(NewAggregate(label, parent, aggregation, options, rows, self.builder.serde(value, "value")))
        self.builder.add(node, lineage=options.name if options.name is not None else stem)
        return self.table(node, node.store, (parent.then(node),))

    def repartitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Adds the repartition, if one is needed."""
        raise NotImplementedError

    def node(self, new: NewAggregate) -> AggregateNode:
        """Returns the node of an aggregation."""
        raise NotImplementedError

    def table(self, node: Node, store: StoreSpec, aggregates: tuple[NodeOutput, ...]) -> TableT:
        """Returns the table of an aggregation.

        Args:
            node: The node whose output is the table.
            store: The store of the rows.
            aggregates: The nodes that aggregate, with the serdes of their inputs.
        """
        raise NotImplementedError


class RecordGrouping(Grouping[TableT]):
    """Base of the groupings of records, with or without windows."""

    aggregate_options = (*Grouping.aggregate_options, "aggregator")
    window: Window | None = None

    def count(self, store: Any, name: str | None) -> TableT:
        """Adds a count."""
        return self.add("count", Aggregation("count"), LONG, store, name)

    def reduce(self, reducer: Any, value: Any, store: Any, name: str | None) -> TableT:
        """Adds a reduction, whose aggregate has the type of the values."""
        aggregation = Aggregation("reduce", add=self.function(reducer, "reducer", REDUCE))
        return self.add("reduce", aggregation, declared_serde(value, "value") or self.output.value, store, name)

    def aggregate(
        self,
        functions: tuple[Any, Any, Any],
        calls: Mapping[str, Any],
        value: Any,
        store: Any,
        name: str | None,
    ) -> TableT:
        """Adds an aggregation by functions of the user's, or by functions of the catalogue.

        Args:
            functions: Initializer, aggregator and merger.
            calls: The functions of the catalogue, by field.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        initializer, aggregator, merger = functions
        checked = check_calls(initializer, calls, self.aggregate_options)
        if checked is not None:
            table: TableT = add_calls(self, checked, value, store, name)
            return table
        init = self.function(initializer, "initializer", ())
        add = self.function(aggregator, "aggregator", ADD)
        merge = None if merger is None else self.function(merger, "merger", JOINER)
        self.check_merger("aggregate", merger)
        serde = self.builder.result_serde(value, add, "value") or self.builder.result_serde(None, init, "value")
        return self.add("aggregate", Aggregation("aggregate", init=init, add=add, merge=merge), serde, store, name)

    def check_merger(self, call: str, merger: Any) -> None:
        """Refuses session windows without a merger, and other aggregations with one."""
        if isinstance(self.window, SessionWindow) != (merger is not None):
            hint = "leave the merger out" if merger is not None else "merger(left, right) returns the aggregate of both"
            raise TopologyError(f"{call}: session windows need a merger, and no others do", hint=hint)

    def repartitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Adds a repartition if keys may have changed."""
        return self.output.copartitioned(topic, stem)


class StreamGrouping(RecordGrouping["Table[Any, Any]"]):
    """The records of a stream by key."""

    def node(self, new: NewAggregate) -> Aggregate:
        """Returns the node of an aggregation."""
        return Aggregate(
            name=new.label,
            at=caller(),
            parent=new.parent.node,
            aggregation=new.aggregation,
            store=new.key_value_store(),
            shared=new.shared,
        )

    def table(self, node: Node, store: StoreSpec, aggregates: tuple[NodeOutput, ...]) -> Table[Any, Any]:
        """Returns the table of an aggregation."""
        return tables.Table(NodeOutput(self.builder, node, store.key, store.value))


class TableGrouping(Grouping["Table[Any, Any]"]):
    """The rows of a table by a new key. The output has the serdes of the groups."""

    subtracts = True
    aggregate_options = (*Grouping.aggregate_options, "adder", "subtractor")

    def repartitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Adds the repartition of the changes of rows."""
        name = topic if topic is not None else self.builder.topic_name(stem)
        key, value = self.output.key_serde, change(self.output.value_serde)
        return self.output.then(self.builder.repartition(self.output.node, name, key, value, changes=True))

    def node(self, new: NewAggregate) -> TableAggregate:
        """Returns the node of an aggregation."""
        return TableAggregate(
            name=new.label,
            at=caller(),
            parent=new.parent.node,
            aggregation=new.aggregation,
            store=new.key_value_store(),
        )

    def table(self, node: Node, store: StoreSpec, aggregates: tuple[NodeOutput, ...]) -> Table[Any, Any]:
        """Returns the table of an aggregation."""
        return tables.Table(NodeOutput(self.builder, node, store.key, store.value))


def store_name(builder: Builder, options: Materialized, name: str | None, stem: str) -> str:
    """Returns the name of an aggregate's store: the user's, or that of the operator or the stem with a suffix."""
    if options.name is not None:
        return options.name
    if name is None:
        builder.check_explicit(stem)
    return f"{stem}-store"
