"""Grouped streams and tables, and their aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from millstream.dsl import cogrouped, windowed
from millstream.dsl.aggregations import ReadyAggregations, ReadyTableAggregations
from millstream.dsl.catalogue import add_calls, check_calls
from millstream.dsl.cogrouping import Cogrouping
from millstream.dsl.grouping import ADD, REDUCE, StreamGrouping
from millstream.dsl.internals import declared_serde
from millstream.dsl.options import Materialized, ValueStoreOptions
from millstream.dsl.suggesting import suggesting_methods
from millstream.dsl.windowing import WindowedGrouping
from millstream.plan.aggregates import Aggregation
from millstream.plan.windows import Window
from millstream.serde import LONG

if TYPE_CHECKING:
    from millstream.dsl.cogrouped import CogroupedStream
    from millstream.dsl.signatures import Picks
    from millstream.dsl.table import Table
    from millstream.dsl.windowed import WindowedStream
    from millstream.dsl.windowing import Emit
    from millstream.expr import Expr
    from millstream.expr.aggregates import AggregateCall

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


@suggesting_methods
class GroupedStream(
    ReadyAggregations[K, V, "Table[K, Any]", "Table[K, int]", "Table[K, float]", "Table[K, list[Any]]"]
):
    """A stream grouped by key, returned by `Stream.group_by_key` and `Stream.group_by`."""

    if TYPE_CHECKING:  # the methods of the base class, with more exact types of results
        sum: Picks[K, V]  # type: ignore[assignment]
        min: Picks[K, V]  # type: ignore[assignment]
        max: Picks[K, V]  # type: ignore[assignment]
        first: Picks[K, V]  # type: ignore[assignment]
        last: Picks[K, V]  # type: ignore[assignment]

    _internals: StreamGrouping

    def __repr__(self) -> str:
        return f"GroupedStream({self._internals.output.node.name})"

    def count(self, *, store: str | Materialized | None = None, name: str | None = None) -> Table[K, int]:
        """Counts the records of each key. Records with a null key or value are dropped (and counted as dropped).

        >>> from millstream import App, TestDriver
        >>> app = App("counting")
        >>> app.stream("clicks", value=str).group_by_key().count(store="counts").to_stream().to("totals")
        >>> with TestDriver(app) as driver:
        ...     driver.input("clicks").pipe("ann", "click")
        ...     driver.input("clicks").pipe("ann", "click")
        ...     (driver.store("counts").get("ann"), driver.output("totals").read_values())
        (2, [1, 2])
        """
        return self._internals.count(store, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combines the values of each key into an aggregate of the same type: ``reducer(aggregate, value)``.

        The first value of a key is its first aggregate. Records with a null key or value are dropped (and counted).
        """
        return self._internals.reduce(reducer, value, store, name)

    @overload
    def aggregate(
        self, initializer: Callable[[], A], aggregator: Callable[[V, A], A | None], **options: Unpack[ValueStoreOptions]
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[ValueStoreOptions],
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self, initializer: Callable[[], A] | Expr, aggregator: Expr, **options: Unpack[ValueStoreOptions]
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self, initializer: Mapping[str, AggregateCall], **options: Unpack[ValueStoreOptions]
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
            initializer: Returns the initial aggregate of a key. Or a dict of aggregate functions by field, for fields
                whose names are not Python identifiers.
            aggregator: Returns the new aggregate, given value and aggregate, or key, value and aggregate. None deletes
                the row.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
            **aggregates: Aggregate functions, by the fields that contain their results.
        """
        return self._internals.aggregate((initializer, aggregator, None), aggregates, value, store, name)

    def windowed_by(self, window: Window, *, emit: Emit = "update") -> WindowedStream[K, V]:
        """Groups the records also by time window: `tumbling`, `hopping`, `sliding`, `session` or `unlimited`.

        Args:
            window: The windows.
            emit: ``update``: emit every update of a window. ``close``: emit each window once, when it closes.
        """
        return windowed.WindowedStream(WindowedGrouping(self._internals, window, emit))

    def cogroup(self, aggregator: Callable[[K, V, A], A] | Callable[[V, A], A]) -> CogroupedStream[K, A]:
        """Starts an aggregation over several grouped streams; see `CogroupedStream.cogroup`."""
        function = self._internals.function(aggregator, "aggregator", ADD)
        return cogrouped.CogroupedStream(Cogrouping(((self._internals, function),)))


@suggesting_methods
class GroupedTable(ReadyTableAggregations[K, V]):
    """The rows of a table grouped by a new key, returned by `Table.group_by`."""

    def __repr__(self) -> str:
        return f"GroupedTable({self._internals.output.node.name})"

    def count(self, *, store: str | Materialized | None = None, name: str | None = None) -> Table[K, int]:
        """Counts the rows of each group."""
        return self._internals.add("count", Aggregation("count"), LONG, store, name)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combines the values of each group: ``adder(aggregate, value)``; ``subtractor`` removes an old value."""
        add = self._internals.function(adder, "adder", REDUCE)
        subtract = self._internals.function(subtractor, "subtractor", REDUCE)
        serde = declared_serde(value, "value") or self._internals.output.value
        return self._internals.add("reduce", Aggregation("reduce", add=add, subtract=subtract), serde, store, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[V, A], A],
        subtractor: Callable[[V, A], A],
        **options: Unpack[ValueStoreOptions],
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        **options: Unpack[ValueStoreOptions],
    ) -> Table[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | Expr,
        adder: Callable[..., Any] | Expr,
        subtractor: Callable[..., Any] | Expr,
        **options: Unpack[ValueStoreOptions],
    ) -> Table[K, Any]: ...
    @overload
    def aggregate(
        self, initializer: Mapping[str, AggregateCall], **options: Unpack[ValueStoreOptions]
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
        sum_, avg and collect support this.

        Args:
            initializer: Returns the initial aggregate of a group. Or a dict of aggregate functions by field.
            adder: Adds a value: returns the new aggregate, given value and aggregate, or key, value and aggregate.
            subtractor: Subtracts a value, likewise.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
            **aggregates: Aggregate functions, by the fields that contain their results.
        """
        grouping = self._internals
        calls = check_calls(initializer, aggregates, grouping.aggregate_options)
        if calls is not None:
            table: Table[K, Any] = add_calls(grouping, calls, value, store, name)
            return table
        add = grouping.function(adder, "adder", ADD)
        aggregation = Aggregation(
            "aggregate",
            init=grouping.function(initializer, "initializer", ()),
            add=add,
            subtract=grouping.function(subtractor, "subtractor", ADD),
        )
        return grouping.add("aggregate", aggregation, grouping.builder.result_serde(value, add, "value"), store, name)
