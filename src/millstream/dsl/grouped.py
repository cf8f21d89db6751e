"""Grouped streams and tables: what comes between grouping and aggregating."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.callsite import caller
from millstream.dsl import cogrouped, table as tables, windowed
from millstream.dsl.aggregations import ReadyTableAggregations, check_calls
from millstream.dsl.grouping import ADD, REDUCE, Groups, store_name
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
from millstream.dsl.suggesting import suggesting_methods
from millstream.plan.aggregates import Aggregate, Aggregation, TableAggregate
from millstream.plan.node import Node
from millstream.plan.windows import Window
from millstream.serde import LONG
from millstream.serde.changes import change

if TYPE_CHECKING:
    from millstream.dsl.cogrouped import CogroupedStream
    from millstream.dsl.signatures import Picks
    from millstream.dsl.stream import Stream
    from millstream.dsl.table import Table
    from millstream.dsl.windowed import Emit, WindowedStream
    from millstream.expr import Expr
    from millstream.expr.aggregates import AggregateCall
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


@suggesting_methods
class GroupedStream(Groups[K, V, "Table[K, Any]", "Table[K, int]", "Table[K, float]", "Table[K, list[Any]]"]):
    """A stream grouped by key; made by `Stream.group_by_key` and `Stream.group_by`."""

    if TYPE_CHECKING:  # the methods of the base class, with the types of their results
        sum: Picks[K, V]  # type: ignore[assignment]
        min: Picks[K, V]  # type: ignore[assignment]
        max: Picks[K, V]  # type: ignore[assignment]
        first: Picks[K, V]  # type: ignore[assignment]
        last: Picks[K, V]  # type: ignore[assignment]

    def __init__(self, stream: Stream[K, V], name: str | None) -> None:
        self._stream = stream
        self._name = name
        self._shared: Stream[K, V] | None = None

    def count(self, *, store: str | Materialized | None = None, name: str | None = None) -> Table[K, int]:
        """Counts the records of each key; records without a key or a value are dropped (and counted as dropped).

        >>> from millstream import App, TestDriver
        >>> app = App("counting")
        >>> app.stream("clicks", value=str).group_by_key().count(store="counts").to_stream().to("totals")
        >>> with TestDriver(app) as driver:
        ...     driver.input("clicks").pipe("ann", "click")
        ...     driver.input("clicks").pipe("ann", "click")
        ...     (driver.store("counts").get("ann"), driver.output("totals").read_values())
        (2, [1, 2])
        """
        return self._add("count", self._count(), LONG, store, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combines the values of each key into one of the same type: ``reducer(aggregate, value)``.

        The first value of a key is its first aggregate. Records without a key or a value are dropped.
        """
        serde = self._stream._given(value, "value") or self._stream._value
        return self._add("reduce", self._reduce(reducer), serde, store, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[V, A], A | None],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | Expr,
        aggregator: Expr,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Mapping[str, AggregateCall],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self,
        *,
        value: type[A],
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> Table[K, dict[str, Any]]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> Table[K, Any]:
        """Combines the values of each key into an aggregate of any type, or computes several aggregates in one pass.

        >>> from millstream import App, TestDriver, avg, col, count, max_
        >>> app = App("statistics")
        >>> by_shop = app.stream("orders").group_by(col("shop"))
        >>> by_shop.aggregate(n=count(), top=max_(col("amount")), mean=avg(col("amount"))).to_stream().to("statistics")
        >>> with TestDriver(app) as driver:
        ...     driver.input("orders").pipe({"shop": "a", "amount": 3})
        ...     driver.input("orders").pipe({"shop": "a", "amount": 4})
        ...     driver.output("statistics").read_values()[-1]
        {'n': 2, 'top': 4, 'mean': 3.5}

        Args:
            initializer: Makes the first aggregate of a key. Or aggregate functions by the names of their fields, in a
                dict, for names that are no Python names.
            aggregator: Of value and aggregate, or of key, value and aggregate; gives the new aggregate. None deletes
                the row.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
            **aggregates: Aggregate functions, by the names of the fields that hold their results.
        """
        calls = check_calls(initializer, aggregates, ("value", "store", "name", "aggregator"))
        if calls is not None:
            table: Table[K, Any] = self._several(calls, value, store, name)
            return table
        aggregation = self._aggregate(initializer, aggregator)
        return self._add("aggregate", aggregation, self._aggregate_serde(value, aggregation), store, name)

    def windowed_by(self, window: Window, *, emit: Emit = "update") -> WindowedStream[K, V]:
        """Aggregates in windows of time: `tumbling`, `hopping`, `sliding`, `session` or `unlimited`.

        Args:
            window: The windows.
            emit: ``update``: every update of a window comes out. ``close``: each window comes out once, when it has
                closed.
        """
        return windowed.WindowedStream(self, window, emit)

    def cogroup(self, aggregator: Callable[[K, V, A], A] | Callable[[V, A], A]) -> CogroupedStream[K, A]:
        """Begins an aggregate over several grouped streams; see `CogroupedStream.cogroup`."""
        return cogrouped.CogroupedStream(((self, self._function(aggregator, ADD, "aggregator")),))

    def _aggregate_serde(self, declared: Any, aggregation: Aggregation) -> Serde[Any] | None:
        assert aggregation.add is not None
        builder = self._stream._builder
        serde = builder.result_serde(declared, aggregation.add, "value")
        if serde is None and aggregation.init is not None:
            serde = builder.result_serde(None, aggregation.init, "value")
        return serde

    def _add(
        self, kind: str, aggregation: Aggregation, value: Serde[Any] | None, store: Any, name: str | None
    ) -> Table[K, Any]:
        builder = self._stream._builder
        options = Materialized.of(store)
        stem = builder.stem(kind, self._stream._node) if name is None else name
        label = builder.name(name, kind, self._stream._node)
        parent = self._partitioned(options.name if options.name is not None else name, stem)
        key = builder.serde(parent._key, "key")
        spec = key_value(options, store_name(builder, options, name, stem), key, builder.serde(value, "value"))
        node = Aggregate(name=label, at=caller(), parent=parent._node, aggregation=aggregation, store=spec)
        builder.add(node, lineage=options.name if options.name is not None else stem)
        return tables.Table(builder, node, spec.key, spec.value)

    def _partitioned(self, given: str | None, stem: str) -> Stream[K, V]:
        """The stream to aggregate; a named grouping goes through one topic, however often it is used."""
        if self._name is None:
            return self._stream._copartitioned(given, stem)
        if self._shared is None or self._shared._node not in self._stream._builder.nodes:
            self._shared = self._stream._copartitioned(self._name, stem)
        return self._shared


@suggesting_methods
class GroupedTable(ReadyTableAggregations[K, V]):
    """The rows of a table under new keys; made by `Table.group_by`."""

    def __init__(self, builder: Builder, node: Node, key: Serde[Any], value: Serde[Any], name: str | None) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._shared: Node | None = None

    def __repr__(self) -> str:
        return f"GroupedTable({self._node.name})"

    def count(self, *, store: str | Materialized | None = None, name: str | None = None) -> Table[K, int]:
        """Counts the rows of each group."""
        return self._add("count", Aggregation("count"), LONG, store, name)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combines the values of each group: ``adder(aggregate, value)``, and ``subtractor`` takes an old one away."""
        aggregation = Aggregation(
            "reduce",
            add=self._function(adder, REDUCE, "adder"),
            subtract=self._function(subtractor, REDUCE, "subtractor"),
        )
        serde = self._builder.result_serde(value, aggregation.add, "value") if value is not None else self._value  # type: ignore[arg-type]
        return self._add("reduce", aggregation, serde, store, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[V, A], A],
        subtractor: Callable[[V, A], A],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | Expr,
        adder: Callable[..., Any] | Expr,
        subtractor: Callable[..., Any] | Expr,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Mapping[str, AggregateCall],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> Table[K, Any]: ...
    def aggregate(
        self,
        initializer: Any = None,
        adder: Any = None,
        subtractor: Any = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> Table[K, Any]:
        """Combines the rows of each group into an aggregate of any type, or computes several aggregates in one pass.

        When a row changes, its old value is subtracted and its new value is added. Of the aggregate functions, count,
        sum_, avg and collect can do that.

        Args:
            initializer: Makes the first aggregate of a group. Or aggregate functions by the names of their fields.
            adder: Adds a value: of value and aggregate, or of key, value and aggregate.
            subtractor: Removes a value, likewise.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
            **aggregates: Aggregate functions, by the names of the fields that hold their results.
        """
        calls = check_calls(initializer, aggregates, ("value", "store", "name", "adder", "subtractor"))
        if calls is not None:
            table: Table[K, Any] = self._several(calls, value, store, name)
            return table
        add = self._function(adder, ADD, "adder")
        aggregation = Aggregation(
            "aggregate",
            init=self._function(initializer, (), "initializer"),
            add=add,
            subtract=self._function(subtractor, ADD, "subtractor"),
        )
        serde = self._builder.result_serde(value, add, "value")
        return self._add("aggregate", aggregation, serde, store, name)

    def _parts(self) -> tuple[Builder, Serde[Any] | None, Serde[Any] | None]:
        return self._builder, self._key, self._value

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Any:
        return self._builder.function(target, roles, what, key=self._key, value=self._value)

    def _add(
        self, kind: str, aggregation: Aggregation, value: Serde[Any] | None, store: Any, name: str | None
    ) -> Table[K, Any]:
        options = Materialized.of(store)
        stem = self._builder.stem(kind, self._node) if name is None else name
        label = self._builder.name(name, kind, self._node)
        if self._shared is None or self._name is None or self._shared not in self._builder.nodes:
            given = next((n for n in (self._name, options.name, name) if n is not None), None)
            topic = given if given is not None else self._builder.topic_name(stem)
            self._shared = self._builder.repartition(self._node, topic, self._key, change(self._value), changes=True)
        spec_name = store_name(self._builder, options, name, stem)
        spec = key_value(options, spec_name, self._key, self._builder.serde(value, "value"))
        node = TableAggregate(name=label, at=caller(), parent=self._shared, aggregation=aggregation, store=spec)
        self._builder.add(node, lineage=options.name if options.name is not None else stem)
        return tables.Table(self._builder, node, spec.key, spec.value)
