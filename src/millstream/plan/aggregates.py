"""Aggregations of streams and tables, plain and in windows."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.frozen import Value
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.plan.windows import Window
from millstream.serde import Serde
from millstream.state.spec import StoreSpec


class Aggregation(Value):
    """What is done with the values of a group.

    Attributes:
        kind: ``count``, ``reduce`` (the first value is the first aggregate) or ``aggregate``.
        init: Makes the first aggregate, for ``aggregate``.
        add: Adds a value: of (agg, value) for ``reduce``, of (key, value, agg) for ``aggregate``.
        subtract: Takes a value away again, for tables.
        merge: Joins the aggregates of two sessions, of (key, left, right).
    """

    kind: Literal["count", "reduce", "aggregate"]
    init: Function | None = None
    add: Function | None = None
    subtract: Function | None = None
    merge: Function | None = None


class Aggregate(Node, kw_only=True):
    """One row for each key of a stream.

    Attributes:
        shared: The aggregate that owns the store, if it is shared with others (`Cogroup`).
    """

    parent: Node
    aggregation: Aggregation
    store: StoreSpec
    shared: Node | None = None

    edge: ClassVar[Edge] = "table"

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The rows, unless another aggregate owns them."""
        return () if self.shared else (self.store,)

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The shared rows."""
        return (self.store.name,) if self.shared else ()


class WindowAggregate(Node, kw_only=True):
    """One row for each key and window of a stream.

    Attributes:
        emit_on_close: Each window comes out once, when it has closed, and not with every update.
        shared: The aggregate that owns the store, if it is shared with others (`Cogroup`).
    """

    parent: Node
    aggregation: Aggregation
    window: Window
    store: StoreSpec
    emit_on_close: bool = False
    shared: Node | None = None

    edge: ClassVar[Edge] = "table"

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The rows, unless another aggregate owns them."""
        return () if self.shared else (self.store,)

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The shared rows."""
        return (self.store.name,) if self.shared else ()


class TableAggregate(Node, kw_only=True):
    """One row for each group of the rows of a table; an updated row is subtracted and added."""

    parent: Node
    aggregation: Aggregation
    store: StoreSpec

    edge: ClassVar[Edge] = "table"


class Cogroup(Node, kw_only=True):
    """The table that several aggregates keep in one store."""

    inputs: tuple[Node, ...]

    edge: ClassVar[Edge] = "table"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The aggregates of the groups."""
        return self.inputs


class TableGroupBy(Node, kw_only=True):
    """Regroups the rows of a table under new keys."""

    parent: Node
    function: Function
    key: Serde[Any]

    edge: ClassVar[Edge] = "table"
    changes_key: ClassVar[bool] = True
