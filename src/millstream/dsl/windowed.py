"""Windowed streams and their aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from millstream.dsl.aggregations import ReadyAggregations
from millstream.dsl.options import Materialized, ValueStoreOptions
from millstream.dsl.suggesting import suggesting_methods
from millstream.dsl.windowing import WindowedGrouping

if TYPE_CHECKING:
    from millstream.core.records import Windowed
    from millstream.dsl.signatures import WindowPicks
    from millstream.dsl.table import WindowedTable
    from millstream.expr import Expr
    from millstream.expr.aggregates import AggregateCall

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


@suggesting_methods
class WindowedStream(
    ReadyAggregations[
        K,
        V,
        "WindowedTable[Windowed[K], Any]",
        "WindowedTable[Windowed[K], int]",
        "WindowedTable[Windowed[K], float]",
        "WindowedTable[Windowed[K], list[Any]]",
    ]
):
    """A stream grouped by key and window, returned by `GroupedStream.windowed_by`."""

    if TYPE_CHECKING:  # the methods of the base class, with more exact types of results
        sum: WindowPicks[K, V]  # type: ignore[assignment]
        min: WindowPicks[K, V]  # type: ignore[assignment]
        max: WindowPicks[K, V]  # type: ignore[assignment]
        first: WindowPicks[K, V]  # type: ignore[assignment]
        last: WindowPicks[K, V]  # type: ignore[assignment]

    _internals: WindowedGrouping

    def __repr__(self) -> str:
        return f"WindowedStream({self._internals.output.node.name})"

    def count(
        self, *, store: str | Materialized | None = None, name: str | None = None
    ) -> WindowedTable[Windowed[K], int]:
        """Counts the records of each key and window.

        Records with a null key are dropped, and so are late records (both are counted as dropped). Records with a null
        value are counted, except in sliding windows.
        """
        return self._internals.count(store, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], V]:
        """Combines the values of each key and window: ``reducer(aggregate, value)``."""
        return self._internals.reduce(reducer, value, store, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A] | None = None,
        **options: Unpack[ValueStoreOptions],
    ) -> WindowedTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A] | None = None,
        **options: Unpack[ValueStoreOptions],
    ) -> WindowedTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | Expr,
        aggregator: Expr,
        merger: Callable[..., Any] | Expr | None = None,
        **options: Unpack[ValueStoreOptions],
    ) -> WindowedTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self, initializer: Mapping[str, AggregateCall], **options: Unpack[ValueStoreOptions]
    ) -> WindowedTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        *,
        value: type[A],
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> WindowedTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> WindowedTable[Windowed[K], dict[str, Any]]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        merger: Any = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: AggregateCall,
    ) -> WindowedTable[Windowed[K], Any]:
        """Combines the values of each key and window into an aggregate, or computes several aggregates in one pass.

        >>> from millstream import App, TestDriver, col, count, sum_, tumbling
        >>> app = App("statistics")
        >>> windows = app.stream("orders").group_by_key().windowed_by(tumbling("1m"))
        >>> windows.aggregate(n=count(), total=sum_(col("amount"))).to_stream().to("statistics")
        >>> with TestDriver(app) as driver:
        ...     driver.input("orders").pipe("a", {"amount": 3}, timestamp=0)
        ...     driver.input("orders").pipe("a", {"amount": 4}, timestamp=1)
        ...     driver.output("statistics").read_values()
        [{'n': 1, 'total': 3}, {'n': 2, 'total': 7}]

        Args:
            initializer: Returns the initial aggregate of a window. Or a dict of aggregate functions by field, for
                fields whose names are not Python identifiers.
            aggregator: Returns the new aggregate, given value and aggregate, or key, value and aggregate. None deletes
                the row.
            merger: For session windows: returns the aggregate of two sessions that a record has merged into one.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized` (with ``retention=…``).
            name: Name of the operator.
            **aggregates: Aggregate functions, by the fields that contain their results.
        """
        return self._internals.aggregate((initializer, aggregator, merger), aggregates, value, store, name)
