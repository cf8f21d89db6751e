"""Grouped streams and tables: what comes between grouping and aggregating."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from millstream.callsite import caller
from millstream.dsl import table as tables
from millstream.dsl.aggregations import ReadyAggregations, ReadyTableAggregations
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value, windowed
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan.aggregates import Aggregate, Aggregation, Cogroup, TableAggregate, WindowAggregate
from millstream.plan.node import Node
from millstream.plan.windows import END_OF_TIME, SessionWindow, SlidingWindow, UnlimitedWindow, Window
from millstream.serde import LONG, session_windowed, time_windowed
from millstream.serde.changes import change

if TYPE_CHECKING:
    from millstream.dsl.builder import Builder
    from millstream.dsl.stream import Stream
    from millstream.dsl.table import Table, WindowedTable
    from millstream.expr import Expr
    from millstream.records import Windowed
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
VO = TypeVar("VO")
T = TypeVar("T")

Emit = Literal["update", "close"]
_ADD = ("key", "value", "agg")
_REDUCE = ("agg", "value")
_MERGE = ("key", "left", "right")


class _Groups(ReadyAggregations[K, V, T]):
    """What grouped and windowed streams have in common: how an aggregation is added to the topology."""

    _stream: Stream[K, V]

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Any:
        key, value = self._stream._key, self._stream._value
        return self._stream._builder.function(target, roles, what, key=key, value=value)

    def _count(self) -> Aggregation:
        return Aggregation("count")

    def _reduce(self, reducer: Any) -> Aggregation:
        return Aggregation("reduce", add=self._function(reducer, _REDUCE, "reducer"))

    def _aggregate(self, initializer: Any, aggregator: Any, merger: Any = None) -> Aggregation:
        return Aggregation(
            "aggregate",
            init=self._function(initializer, (), "initializer"),
            add=self._function(aggregator, _ADD, "aggregator"),
            merge=None if merger is None else self._function(merger, _MERGE, "merger"),
        )


@suggesting_methods
class GroupedStream(_Groups[K, V, "Table[K, Any]"]):
    """A stream grouped by key; made by `Stream.group_by_key` and `Stream.group_by`."""

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
    def aggregate(
        self,
        initializer: Any,
        aggregator: Any,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Combines the values of each key into an aggregate of any type.

        Args:
            initializer: Makes the first aggregate of a key.
            aggregator: Of value and aggregate, or of key, value and aggregate; gives the new aggregate. None deletes
                the row.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        aggregation = self._aggregate(initializer, aggregator)
        return self._add("aggregate", aggregation, self._aggregate_serde(value, aggregation), store, name)

    def windowed_by(self, window: Window, *, emit: Emit = "update") -> WindowedStream[K, V]:
        """Aggregates in windows of time: `tumbling`, `hopping`, `sliding`, `session` or `unlimited`.

        Args:
            window: The windows.
            emit: ``update``: every update of a window comes out. ``close``: each window comes out once, when it has
                closed.
        """
        return WindowedStream(self, window, emit)

    def cogroup(self, aggregator: Callable[[K, V, A], A] | Callable[[V, A], A]) -> CogroupedStream[K, A]:
        """Begins an aggregate over several grouped streams; see `CogroupedStream.cogroup`."""
        return CogroupedStream(((self, self._function(aggregator, _ADD, "aggregator")),))

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
class WindowedStream(_Groups[K, V, "WindowedTable[Windowed[K], Any]"]):
    """A grouped stream in windows; made by `GroupedStream.windowed_by`."""

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
        merge = None
        if isinstance(self._window, SessionWindow):
            merge = self._function(lambda left, right: left + right, _MERGE, "merger")
        return self._add("count", Aggregation("count", merge=merge), LONG, store, name)

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
    def aggregate(
        self,
        initializer: Any,
        aggregator: Any,
        merger: Any = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], Any]:
        """Combines the values of each key and window into an aggregate of any type.

        Args:
            initializer: Makes the first aggregate of a window.
            aggregator: Of value and aggregate, or of key, value and aggregate. None deletes the row.
            merger: For session windows, where a record may join two sessions: gives the aggregate of both.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized` (with ``retention=…``).
            name: Name of the operator.
        """
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


@suggesting_methods
class CogroupedStream(Generic[K, A]):
    """An aggregate over several grouped streams, each with an aggregator of its own; the rows are shared."""

    def __init__(self, parts: tuple[tuple[GroupedStream[K, Any], Any], ...], window: Window | None = None) -> None:
        self._parts = parts
        self._window = window

    def cogroup(
        self, grouped: GroupedStream[K, VO], aggregator: Callable[[K, VO, A], A] | Callable[[VO, A], A]
    ) -> CogroupedStream[K, A]:
        """Adds another grouped stream and its aggregator."""
        if not isinstance(grouped, GroupedStream):
            raise TopologyError(
                f"cogroup: expected a grouped stream, got {grouped!r}", hint="group it first: stream.group_by_key()"
            )
        function = grouped._function(aggregator, _ADD, "aggregator")
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
        merge = None if merger is None else first._function(merger, _MERGE, "merger")
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
            add=self._function(adder, _REDUCE, "adder"),
            subtract=self._function(subtractor, _REDUCE, "subtractor"),
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
    def aggregate(
        self,
        initializer: Any,
        adder: Any,
        subtractor: Any,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Combines the rows of each group into an aggregate of any type.

        When a row changes, its old value is subtracted and its new value is added.
        """
        add = self._function(adder, _ADD, "adder")
        aggregation = Aggregation(
            "aggregate",
            init=self._function(initializer, (), "initializer"),
            add=add,
            subtract=self._function(subtractor, _ADD, "subtractor"),
        )
        serde = self._builder.result_serde(value, add, "value")
        return self._add("aggregate", aggregation, serde, store, name)

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


def store_name(builder: Builder, options: Materialized, name: str | None, stem: str) -> str:
    """The name of an aggregate's store: the user's, or after the operator's if the user named that, or derived."""
    if options.name is not None:
        return options.name
    if name is None:
        builder.check_explicit(stem)
    return f"{stem}-store"
