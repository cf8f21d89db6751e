"""Grouped streams in windows of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.durations import END_OF_TIME
from millstream.dsl import table as tables
from millstream.dsl.aggregations import check_calls
from millstream.dsl.grouping import Groups, store_name
from millstream.dsl.options import Materialized
from millstream.dsl.stores import windowed
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan.aggregates import Aggregation, WindowAggregate
from millstream.plan.node import Node
from millstream.plan.windows import SessionWindow, SlidingWindow, UnlimitedWindow, Window
from millstream.serde import LONG, session_windowed, time_windowed

if TYPE_CHECKING:
    from millstream.core.records import Windowed
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.signatures import WindowPicks
    from millstream.dsl.stream import Stream
    from millstream.dsl.table import WindowedTable
    from millstream.expr import Expr
    from millstream.expr.aggregates import AggregateCall
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

Emit = Literal["update", "close"]


@suggesting_methods
class WindowedStream(
    Groups[
        K,
        V,
        "WindowedTable[Windowed[K], Any]",
        "WindowedTable[Windowed[K], int]",
        "WindowedTable[Windowed[K], float]",
        "WindowedTable[Windowed[K], list[Any]]",
    ]
):
    """A grouped stream in windows; made by `GroupedStream.windowed_by`."""

    if TYPE_CHECKING:  # the methods of the base class, with the types of their results
        sum: WindowPicks[K, V]  # type: ignore[assignment]
        min: WindowPicks[K, V]  # type: ignore[assignment]
        max: WindowPicks[K, V]  # type: ignore[assignment]
        first: WindowPicks[K, V]  # type: ignore[assignment]
        last: WindowPicks[K, V]  # type: ignore[assignment]

    def __init__(self, grouped: GroupedStream[K, V], window: Window, emit: Emit) -> None:
        self._grouped = grouped
        self._stream = grouped._stream
        self._window = check_window(window, emit)
        self._emit = emit

    def count(
        self, *, store: str | Materialized | None = None, name: str | None = None
    ) -> WindowedTable[Windowed[K], int]:
        """Counts the records of each key and window.

        Records without a key are dropped. Records without a value are counted, except in sliding windows.
        """
        return self._add("count", self._count(), LONG, store, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], V]:
        """Combines the values of each key and window: ``reducer(aggregate, value)``."""
        serde = self._stream._given(value, "value") or self._stream._value
        return self._add("reduce", self._reduce(reducer), serde, store, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A] | Expr,
        aggregator: Expr,
        merger: Callable[..., Any] | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], Any]: ...
    @overload
    def aggregate(
        self,
        initializer: Mapping[str, AggregateCall],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
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
            initializer: Makes the first aggregate of a window. Or aggregate functions by the names of their fields, in
                a dict, for names that are no Python names.
            aggregator: Of value and aggregate, or of key, value and aggregate. None deletes the row.
            merger: For session windows, where a record may join two sessions: gives the aggregate of both.
            value: Serde of the aggregate. The record of several aggregates is converted to its type.
            store: Name of the store, or `Materialized` (with ``retention=…``).
            name: Name of the operator.
            **aggregates: Aggregate functions, by the names of the fields that hold their results.
        """
        calls = check_calls(initializer, aggregates, ("value", "store", "name", "aggregator", "merger"))
        if calls is not None:
            table: WindowedTable[Windowed[K], Any] = self._several(calls, value, store, name)
            return table
        aggregation = self._aggregate(initializer, aggregator, merger)
        check_merger("aggregate", self._window, merger)
        serde = self._grouped._aggregate_serde(value, aggregation)
        return self._add("aggregate", aggregation, serde, store, name)

    def _add(
        self, kind: str, aggregation: Aggregation, value: Serde[Any] | None, store: Any, name: str | None
    ) -> WindowedTable[Any, Any]:
        builder = self._stream._builder
        options = Materialized.of(store)
        stem = builder.stem(kind, self._stream._node) if name is None else name
        label = builder.name(name, kind, self._stream._node)
        parent = self._grouped._partitioned(options.name if options.name is not None else name, stem)
        lineage = options.name if options.name is not None else stem
        node = add_window_aggregate(
            builder,
            parent,
            aggregation,
            self._window,
            options,
            value,
            label,
            store=store_name(builder, options, name, stem),
            lineage=lineage,
            emit_on_close=self._emit == "close",
        )
        key = windowed_key(node.store.key, self._window)
        return tables.WindowedTable(builder, node, key, node.store.value, ((node, parent._key, parent._value),))


def check_window(window: Window, emit: Emit) -> Window:
    """Refuses what cannot be aggregated by."""
    if not hasattr(window, "close_delay"):
        raise TopologyError(
            f"windowed_by: expected windows, got {window!r}",
            hint='use tumbling("1m"), hopping("10s", "5s"), sliding("10s"), session("30s") or unlimited()',
        )
    if emit not in {"update", "close"}:
        raise TopologyError(
            f"windowed_by: emit={emit!r} is neither 'update' nor 'close'",
            hint="'update' sends every update of a window, 'close' each window once",
        )
    if emit == "close" and isinstance(window, UnlimitedWindow):
        raise TopologyError(
            "windowed_by: an unlimited window never closes, so emit='close' would give nothing",
            hint="leave emit out, or use windows that end",
        )
    return window


def check_merger(call: str, window: Window | None, merger: Any) -> None:
    """Sessions that become one need a merger; other windows never do."""
    if isinstance(window, SessionWindow) != (merger is not None):
        hint = "leave the merger out" if merger is not None else "merger(left, right) gives the aggregate of both"
        raise TopologyError(f"{call}: session windows need a merger, and only they do", hint=hint)


def windowed_key(key: Serde[Any], window: Window) -> Serde[Any]:
    """Serde of the keys of a table in such windows."""
    if isinstance(window, SessionWindow):
        return session_windowed(key)
    if isinstance(window, UnlimitedWindow):
        return time_windowed(key, END_OF_TIME)
    return time_windowed(key, window.difference if isinstance(window, SlidingWindow) else window.size)


def add_window_aggregate(
    builder: Builder,
    parent: Stream[Any, Any],
    aggregation: Aggregation,
    window: Window,
    options: Materialized,
    value: Serde[Any] | None,
    label: str,
    *,
    store: str,
    lineage: str,
    emit_on_close: bool = False,
    shared: Node | None = None,
) -> WindowAggregate:
    """Adds an aggregate in windows to the topology."""
    key = builder.serde(parent._key, "key")
    spec = windowed(options, store, key, builder.serde(value, "value"), window, emit_on_close=emit_on_close)
    node = WindowAggregate(
        name=label,
        at=caller(),
        parent=parent._node,
        aggregation=aggregation,
        window=window,
        store=spec,
        emit_on_close=emit_on_close,
        shared=shared,
    )
    return builder.add(node, lineage=lineage)
