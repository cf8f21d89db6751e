"""Aggregations of streams and tables, with and without windows."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.core.frozen import Value
from millstream.expr.aggregates import Accumulator, lookup_aggregate
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.plan.windows import Window
from millstream.serde import Serde
from millstream.state.spec import StoreSpec


class BoundAggregate(Value):
    """A call of an aggregate function of the catalogue (`millstream.expr.aggregates`) in a plan.

    Attributes:
        function: The name of the function.
        of: Picks the aggregated value, of (key, value); None picks the value itself.
        options: The options of the call, by name.
    """

    function: str
    of: Function | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def accumulator(self) -> Accumulator:
        """Returns the accumulator of the function with these options; options that are functions are compiled."""
        options = {name: value.bare() if isinstance(value, Function) else value for name, value in self.options}
        return lookup_aggregate(self.function).make(**options)


class Aggregation(Value):
    """The computation over the values of a group.

    Attributes:
        kind: ``count``, ``reduce`` (the first value is the first aggregate), ``aggregate`` (functions of the user's) or
            ``functions`` (of the catalogue).
        init: Returns the initial aggregate, for ``aggregate``.
        add: Adds a value: of (agg, value) for ``reduce``, of (key, value, agg) for ``aggregate``.
        subtract: Removes a value, for tables.
        merge: Merges the aggregates of two sessions, of (key, left, right).
        functions: The calls, for ``functions``.
        fields: The field names of the results of several calls; empty if the aggregate is the result of one call.
    """

    kind: Literal["count", "reduce", "aggregate", "functions"]
    init: Function | None = None
    add: Function | None = None
    subtract: Function | None = None
    merge: Function | None = None
    functions: tuple[BoundAggregate, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def user_function(self) -> Function | None:
        """The function that errors of the aggregation are attributed to: the aggregator, or the one of the value."""
        return self.add or next((call.of for call in self.functions if call.of is not None), None)

    @property
    def all_functions(self) -> tuple[Function, ...]:
        """All functions of the user's."""
        own = (self.init, self.add, self.subtract, self.merge, *(call.of for call in self.functions))
        options = (value for call in self.functions for _name, value in call.options)
        return tuple(function for function in (*own, *options) if isinstance(function, Function))


class StreamAggregate(Node, kw_only=True):
    """The base of aggregates of a stream.

    Attributes:
        shared: The aggregate that owns the store, if several aggregates share it (`Cogroup`).
    """

    parent: Node
    aggregation: Aggregation
    store: StoreSpec
    shared: Node | None = None

    edge: ClassVar[Edge] = "table"
    groups: ClassVar[bool] = True

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The rows, unless another aggregate owns them."""
        return () if self.shared else (self.store,)

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The shared rows."""
        return (self.store.name,) if self.shared else ()


class Aggregate(StreamAggregate, kw_only=True):
    """One row for each key of a stream."""

    one_to_one: ClassVar[bool] = True


class WindowAggregate(StreamAggregate, kw_only=True):
    """One row for each key and window of a stream.

    Attributes:
        emit_on_close: Each window is emitted once, when it closes, instead of with every update.
    """

    window: Window
    emit_on_close: bool = False


class TableAggregate(Node, kw_only=True):
    """One row for each group of the rows of a table; an updated row is subtracted and added."""

    parent: Node
    aggregation: Aggregation
    store: StoreSpec

    edge: ClassVar[Edge] = "table"
    groups: ClassVar[bool] = True


class Cogroup(Node, kw_only=True):
    """The table that several aggregates keep in one store."""

    inputs: tuple[Node, ...]

    edge: ClassVar[Edge] = "table"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The aggregates of the groups."""
        return self.inputs

    @property
    def rows_from(self) -> tuple[Node, ...]:
        """The first aggregate, which owns the store."""
        return self.inputs[:1]

    @property
    def old_values_from(self) -> tuple[Node, ...]:
        """The aggregates, which must not change old values in place."""
        return self.inputs


class TableGroupBy(Node, kw_only=True):
    """Regroups the rows of a table under new keys."""

    parent: Node
    function: Function
    key: Serde[Any]

    edge: ClassVar[Edge] = "table"
    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("function",)

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The table, to remove a row's previous value from its previous group."""
        return (self.parent,)
