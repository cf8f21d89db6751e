"""Tables: the last value of each key, changing as records come, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.durations import later
from millstream.core.names import check_name
from millstream.dsl import compositions, grouped, stream as streams, table_joins
from millstream.dsl.options import Materialized, Suppressed
from millstream.dsl.stores import key_value
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan import aggregates, sources, tables
from millstream.plan.stateless import Late
from millstream.plan.walk import close_delay, history, window_aggregates
from millstream.serde import BYTES, HEADERS, LONG, serde_for, tuple_of
from millstream.serde.windowed import SessionWindowedSerde, TimeWindowedSerde
from millstream.state.spec import StoreSpec
from millstream.text.suggestions import suggesting_attributes

if TYPE_CHECKING:
    from millstream.core.durations import Duration
    from millstream.dsl.grouped import GroupedTable
    from millstream.dsl.stream import Stream
    from millstream.expr import Expr
    from millstream.plan.builder import Builder
    from millstream.plan.node import Node
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")
KO = TypeVar("KO")


@suggesting_methods
class Table(Generic[K, V]):
    """A table: the current value of every key, as the records of a stream change it.

    Tables are made by `App.table`, by aggregations and by the methods here. What flows between operators are changes:
    the new value of a row and, where needed, the old one; a null value deletes the row.
    """

    def __init__(self, builder: Builder, node: Node, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.name})"

    def _repr_html_(self) -> str:
        from millstream.text.html import operator  # noqa: PLC0415  (only a notebook needs it)

        return operator(self, self._node, self._key, self._value)

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table, if the user named it."""
        spec = getattr(self._node, "store", None)
        return spec.name if spec is not None and spec.named else None

    @overload
    def filter(
        self, predicate: Callable[[V], object], *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    @overload
    def filter(
        self, predicate: Callable[[K, V], object], *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    @overload
    def filter(
        self, predicate: Expr, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    def filter(
        self, predicate: Any, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]:
        """The rows for which the predicate holds; a row that no longer does is deleted.

        The predicate is not called for deletions.

        Args:
            predicate: Of the value, or of key and value.
            store: Name of a store to keep the result in.
            name: Name of the operator.
        """
        return self._filter("filter", predicate, store, name, negate=False)

    @overload
    def filter_not(
        self, predicate: Callable[[V], object], *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Expr, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]: ...
    def filter_not(
        self, predicate: Any, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]:
        """The rows for which the predicate does not hold."""
        return self._filter("filter-not", predicate, store, name, negate=True)

    def _filter(self, kind: str, predicate: Any, store: Any, name: str | None, *, negate: bool) -> Table[K, V]:
        function = self._function(predicate, kind.replace("-", "_"))
        return self._add(tables.TableFilter, kind, name, store, self._value, predicate=function, negate=negate)

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def map_values(
        self, function: Expr, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]: ...
    def map_values(
        self, function: Any, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]:
        """The same rows with new values. The function is not called for deletions."""
        wrapped = self._function(function, "map_values")
        serde = self._builder.result_serde(value, wrapped, "value", key=self._key, value=self._value)
        return self._add(tables.TableMapValues, "map-values", name, store, serde, function=wrapped)

    @overload
    def transform_values(
        self,
        function: Callable[[V | None], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def transform_values(
        self,
        function: Callable[[K, V | None], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def transform_values(
        self, function: Expr, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]: ...
    def transform_values(
        self, function: Any, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]:
        """The same rows with new values, by a function that is also called for deletions, with None."""
        wrapped = self._function(function, "transform_values")
        serde = self._builder.result_serde(value, wrapped, "value", key=self._key, value=self._value)
        return self._add(tables.TableTransformValues, "transform-values", name, store, serde, function=wrapped)

    def to_stream(
        self,
        key: Callable[[K, V], K2] | Callable[[V], K2] | Expr | None = None,
        *,
        key_serde: Any = None,
        name: str | None = None,
    ) -> Stream[Any, V]:
        """The changes of the table as a stream: the new value of a row, None if it was deleted.

        Args:
            key: Gives the records a new key, as `Stream.select_key` does.
            key_serde: Serde of the new keys.
            name: Name of the operator.
        """
        label = self._builder.name(name, "to-stream", self._node)
        node = self._builder.add(tables.ToStream(name=label, at=caller(), parent=self._node))
        stream: Stream[Any, V] = streams.Stream(self._builder, node, self._key, self._value)
        return stream if key is None else stream.select_key(key, key=key_serde)

    def suppress(self, until: Suppressed) -> Table[K, V]:
        """Holds changes back, so that not every update of a row comes out.

        Args:
            until: `until_window_closes()` for one final result of each window, or `until_time_limit("5s")`.

        >>> from millstream import App, TestDriver, tumbling, until_window_closes
        >>> app = App("final-counts")
        >>> windows = app.stream("clicks", value=str).group_by_key().windowed_by(tumbling("1s"))
        >>> windows.count().suppress(until_window_closes()).to_stream().to("final")
        >>> with TestDriver(app) as driver:
        ...     for time in (100, 200, 1_500):
        ...         driver.input("clicks").pipe("ann", "click", timestamp=time)
        ...     [(str(r.key), r.value) for r in driver.output("final").read_all()]
        [('[ann@0/1000]', 2)]
        """
        if not isinstance(until, Suppressed):
            raise TopologyError(f"suppress: expected until_window_closes(…) or until_time_limit(…), got {until!r}")
        if self._history() is not None:
            raise TopologyError(
                "a versioned table cannot be suppressed", hint="keep it in a store without history, or suppress before"
            )
        delay, idle = close_delay(self._node) if until.until == "window_closes" else (until.limit, None)
        if until.until == "window_closes" and not isinstance(self._key, TimeWindowedSerde | SessionWindowedSerde):
            raise TopologyError(
                f"the keys of {self._node.name!r} are no longer windowed, so nothing tells when a row is final",
                hint="suppress before the rows are regrouped or given other keys",
            )
        label = self._builder.name(until.name, "suppress", self._node)
        key, value = self._builder.serde(self._key, "key"), self._builder.serde(self._value, "value")
        if until.name is None:
            self._builder.check_explicit(label)
        # key, new value, the old value that came first, timestamp, headers
        fields = tuple_of(key, value, value, LONG, HEADERS)
        node = tables.Suppress(
            name=label,
            at=caller(),
            parent=self._node,
            until=until.until,
            wait=delay,
            max_records=until.max_records,
            max_bytes=until.max_bytes,
            when_full=until.when_full,
            idle=idle,
            key=key,
            value=value,
            store=StoreSpec(name=f"{label}-store", kind="buffer", key=BYTES, value=fields, logged=until.logging),
            sent=self._sent(f"{label}-sent-store", key, value, logged=until.logging),
        )
        self._builder.add(node, lineage=label)
        return self._derived(node, self._value)

    @overload
    def group_by(
        self, function: Callable[[V], tuple[K2, V2]], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self, function: Callable[[K, V], tuple[K2, V2]], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self, function: Expr, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedTable[Any, Any]: ...
    def group_by(
        self, function: Any, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedTable[Any, Any]:
        """Groups the rows under new keys, for an aggregation that follows every change of a row. Repartitions.

        Args:
            function: Gives a pair: the key of the group, and the value that the row has in it.
            key: Serde of the group's keys.
            value: Serde of the values.
            name: Name of the repartition topic.
        """
        wrapped = self._function(function, "group_by")
        label = self._builder.name(None, "group-by", self._node)
        serde = self._builder.serde(None if key is None else serde_for(key, "key"), "key")
        node = aggregates.TableGroupBy(name=label, at=caller(), parent=self._node, function=wrapped, key=serde)
        self._builder.add(node)
        if name is not None:
            check_name(name, "grouping")
        values = self._builder.serde(None if value is None else serde_for(value, "value"), "value")
        return grouped.GroupedTable(self._builder, node, serde, values, name)

    @overload
    def join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[V, VO], V2],
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[Any, VO],
        joiner: Expr,
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    def join(
        self,
        other: Any,
        joiner: Any,
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """The rows that both tables have, joined; a change on either side updates the result.

        Args:
            other: The right table.
            joiner: Of the left and the right value, or of key, left and right.
            on: Makes it a foreign-key join: gives the key of the right row, from the left value or from key and
                value. Then the tables need not share keys, and several left rows may join one right row.
            value: Serde of the results.
            store: Name of a store to keep the result in.
            name: Name of the operator.
        """
        return table_joins.join(self, other, "inner", joiner, on, value, store, name)

    @overload
    def left_join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[Any, VO],
        joiner: Expr,
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    def left_join(
        self,
        other: Any,
        joiner: Any,
        *,
        on: Callable[..., Any] | Expr | None = None,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """All rows of this table, joined with those of the other where there are any; otherwise right is None."""
        return table_joins.join(self, other, "left", joiner, on, value, store, name)

    @overload
    def outer_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V | None, VO | None], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def outer_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[K, V | None, VO | None], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def outer_join(
        self,
        other: Table[K, VO],
        joiner: Expr,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]: ...
    def outer_join(
        self,
        other: Any,
        joiner: Any,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """All rows of both tables; the side that has no such row is None."""
        return table_joins.join(self, other, "outer", joiner, None, value, store, name)

    # ----- inside ----------------------------------------------------------------------------------------------

    def _function(self, target: Any, what: str) -> Any:
        return self._builder.function(target, ("key", "value"), what, key=self._key, value=self._value)

    def _add(
        self,
        kind: Callable[..., Any],
        label: str,
        name: str | None,
        store: Any,
        serde: Serde[Any] | None,
        **fields: Any,
    ) -> Table[Any, Any]:
        label = self._builder.name(name, label, self._node)
        options = Materialized.of(store)
        spec = None
        if store is not None:
            key, value = self._builder.serde(self._key, "key"), self._builder.serde(serde, "value")
            spec = key_value(options, f"{label}-store", key, value)
            serde = spec.value
        node = kind(name=label, at=caller(), parent=self._node, store=spec, **fields)
        self._builder.add(node, lineage=spec.name if spec else None)
        return self._derived(node, serde)

    def _derived(self, node: Node, value: Serde[Any] | None) -> Table[Any, Any]:
        """A table with the keys of this one."""
        return Table(self._builder, node, self._key, value)

    def _sent(self, name: str, key: Serde[Any], value: Serde[Any], *, logged: bool) -> StoreSpec:
        """The store of what suppress last sent for a row; of a window, as long as that can still change."""
        kept = [aggregate.store.retention_ms or 0 for aggregate in window_aggregates(self._node)]
        if not kept or not isinstance(key, TimeWindowedSerde | SessionWindowedSerde):
            return StoreSpec(name=name, kind="key-value", key=key, value=value, logged=logged)
        session = isinstance(key, SessionWindowedSerde)
        return StoreSpec(
            name=name,
            kind="session" if session else "window",
            key=key.inner,
            value=value,
            retention_ms=later(max(kept), 1),
            window_size_ms=None if session else getattr(key, "size_ms", None),
            logged=logged,
        )

    def _history(self) -> int | None:
        return history(self._node)


class WindowedTable(Table[K, V]):
    """The result of a windowed aggregation: a table whose keys are `Windowed`."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        inputs: tuple[tuple[Node, Serde[Any] | None, Serde[Any] | None], ...],
    ) -> None:
        super().__init__(builder, node, key, value)
        self._inputs = inputs

    def _derived(self, node: Node, value: Serde[Any] | None) -> WindowedTable[Any, Any]:
        return WindowedTable(self._builder, node, self._key, value, self._inputs)

    def late(self, *, name: str | None = None) -> Stream[Any, Any]:
        """The records that came after all their windows had closed, as a stream of their own.

        They are counted as dropped all the same. The stream has the keys and values of what was aggregated.

        >>> from millstream import App, TestDriver, tumbling
        >>> app = App("late-data")
        >>> counts = app.stream("clicks", value=str).group_by_key().windowed_by(tumbling("1s")).count()
        >>> counts.late().to("too-late")
        >>> with TestDriver(app) as driver:
        ...     for time in (500, 5_000, 700):
        ...         driver.input("clicks").pipe("ann", f"at {time}", timestamp=time)
        ...     driver.output("too-late").read_values()
        ['at 700']
        """
        label = self._builder.name(name, "late", self._node, base=self._node.name)
        found = []
        for index, (node, key, value) in enumerate(self._inputs):
            own = label if index == 0 else self._builder.name(None, "late", node, base=node.name)
            side = self._builder.add(Late(name=own, at=caller(), parent=node))
            found.append(streams.Stream[Any, Any](self._builder, side, key, value))
        return found[0] if len(found) == 1 else found[0].merge(*found[1:])


@suggesting_attributes
class GlobalTable(Generic[K, V]):
    """A table over a topic that is whole in every task, so that a stream can be joined with it by any key."""

    def __init__(self, builder: Builder, node: sources.GlobalTable) -> None:
        self._builder = builder
        self._node = node
        self._key = node.key
        self._value = node.value

    def __repr__(self) -> str:
        return f"GlobalTable({self._node.name})"

    def _repr_html_(self) -> str:
        from millstream.text.html import operator  # noqa: PLC0415  (only a notebook needs it)

        return operator(self, self._node, self._key, self._value)

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table, if the user named it."""
        return self._node.store.name if self._node.store.named else None


def make_table(
    stream: Stream[K, V],
    *,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    ttl: Duration | None = None,
    name: str | None = None,
    source_topic: str | None = None,
) -> Table[K, V]:
    """Reads a stream as a table."""
    builder = stream._builder
    options = Materialized.of(store)
    base = f"{source_topic}-table" if source_topic else None
    label = builder.name(name, "to-table", stream._node) if base is None else builder.name(name, base, base="")
    typed: Stream[K, V] = streams.Stream(
        builder,
        stream._node,
        stream._given(key, "key") or stream._key,
        stream._given(value, "value") or stream._value,
        rekeyed=stream._rekeyed,
    )
    typed = typed._copartitioned(options.name if options.name is not None else name, label)
    if ttl is not None:
        typed = compositions.expire(typed, ttl, label)
    keys, values = builder.serde(typed._key, "key"), builder.serde(typed._value, "value")
    spec = key_value(options, f"{label}-store", keys, values)
    node = sources.ToTable(
        name=label,
        at=caller(),
        parent=typed._node,
        store=spec,
        source_topic=None if ttl is not None else source_topic,  # a row that expired is still in the topic
    )
    builder.add(node, lineage=options.name or source_topic or label)
    return Table(builder, node, spec.key, spec.value)
