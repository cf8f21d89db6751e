"""Tables: the latest value of each key, and their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.dsl import grouped, grouping, stream as streams
from millstream.dsl.internals import Dataset, NodeOutput, declared_serde
from millstream.dsl.options import Materialized, StoreOptions, Suppressed, ValueStoreOptions
from millstream.dsl.stores import key_value
from millstream.dsl.suggesting import suggesting_methods
from millstream.dsl.suppression import suppress
from millstream.dsl.table_joins import TableJoinOperators
from millstream.plan import aggregates, tables
from millstream.plan.stateless import Late
from millstream.text.suggestions import suggesting_attributes

if TYPE_CHECKING:
    from millstream.dsl.grouped import GroupedTable
    from millstream.dsl.stream import Stream
    from millstream.expr import Expr
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


@suggesting_methods
class Table(TableJoinOperators[K, V]):
    """The latest value of each key, updated by the records of a stream.

    `App.table`, aggregations and the methods below return tables. Operators of tables exchange changes: the new value
    of a row and, if a later operator needs it, the old value. A null value deletes the row.
    """

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store that contains the table; None if the user did not name it."""
        return _store_name(self._internals)

    @overload
    def filter(self, predicate: Callable[[V], object], **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    @overload
    def filter(self, predicate: Callable[[K, V], object], **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    @overload
    def filter(self, predicate: Expr, **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    def filter(
        self, predicate: Any, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Returns the rows for which the predicate is true. A row for which it becomes false is deleted.

        Stateless, unless ``store`` is given. The predicate is not called for deletions.

        Args:
            predicate: Function of the value, or of key and value.
            store: Name of a store for the result, or `Materialized`.
            name: Name of the operator.
        """
        return self._filter("filter", predicate, store, name, negate=False)

    @overload
    def filter_not(self, predicate: Callable[[V], object], **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    @overload
    def filter_not(self, predicate: Callable[[K, V], object], **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    @overload
    def filter_not(self, predicate: Expr, **options: Unpack[StoreOptions]) -> Table[K, V]: ...
    def filter_not(
        self, predicate: Any, *, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Returns the rows for which the predicate is false; see `filter`."""
        return self._filter("filter-not", predicate, store, name, negate=True)

    def _filter(self, kind: str, predicate: Any, store: Any, name: str | None, *, negate: bool) -> Table[K, V]:
        function = self._internals.function(predicate, kind.replace("-", "_"))
        return self._add(
            tables.TableFilter, kind, name, store, self._internals.value, predicate=function, negate=negate
        )

    @overload
    def map_values(self, function: Callable[[V], V2], **options: Unpack[ValueStoreOptions]) -> Table[K, V2]: ...
    @overload
    def map_values(self, function: Callable[[K, V], V2], **options: Unpack[ValueStoreOptions]) -> Table[K, V2]: ...
    @overload
    def map_values(self, function: Expr, **options: Unpack[ValueStoreOptions]) -> Table[K, Any]: ...
    def map_values(
        self, function: Any, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]:
        """Sets a new value for each row. Stateless, unless ``store`` is given.

        The function is not called for deletions.
        """
        wrapped = self._internals.function(function, "map_values")
        serde = self._internals.result_serde(value, wrapped, "value")
        return self._add(tables.TableMapValues, "map-values", name, store, serde, function=wrapped)

    @overload
    def transform_values(
        self, function: Callable[[V | None], V2], **options: Unpack[ValueStoreOptions]
    ) -> Table[K, V2]: ...
    @overload
    def transform_values(
        self, function: Callable[[K, V | None], V2], **options: Unpack[ValueStoreOptions]
    ) -> Table[K, V2]: ...
    @overload
    def transform_values(self, function: Expr, **options: Unpack[ValueStoreOptions]) -> Table[K, Any]: ...
    def transform_values(
        self, function: Any, *, value: Any = None, store: str | Materialized | None = None, name: str | None = None
    ) -> Table[K, Any]:
        """Sets a new value for each row, by a function that is also called for deletions, with None as the value."""
        wrapped = self._internals.function(function, "transform_values")
        serde = self._internals.result_serde(value, wrapped, "value")
        return self._add(tables.TableTransformValues, "transform-values", name, store, serde, function=wrapped)

    def to_stream(
        self,
        key: Callable[[K, V], K2] | Callable[[V], K2] | Expr | None = None,
        *,
        key_serde: Any = None,
        name: str | None = None,
    ) -> Stream[Any, V]:
        """Returns the changes of the table as a stream of new values; the value is None if the row was deleted.

        Args:
            key: Returns a new key for each record, as in `Stream.select_key`.
            key_serde: Serde of the new keys.
            name: Name of the operator.
        """
        node = self._internals.add(tables.ToStream, "to-stream", name)
        stream: Stream[Any, V] = streams.Stream(self._internals.then(node))
        return stream if key is None else stream.select_key(key, key=key_serde)

    def suppress(self, until: Suppressed) -> Table[K, V]:
        """Buffers changes and emits only the latest change of each row. Stateful: a buffer, and the rows emitted.

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
        return self._derived(suppress(self._internals, until))

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
        """Groups the rows by a new key, for an aggregation that is updated by each change of a row. Repartitions.

        Args:
            function: Returns the key of the group and the value to aggregate, given the value or key and value.
            key: Serde of the keys of the groups.
            value: Serde of the values.
            name: Name of the repartition topic.
        """
        if name is not None:
            check_name(name, "grouping")
        builder = self._internals.builder
        keys = builder.serde(declared_serde(key, "key"), "key")
        values = builder.serde(declared_serde(value, "value"), "value")
        wrapped = self._internals.function(function, "group_by")
        node = self._internals.add(aggregates.TableGroupBy, "group-by", None, function=wrapped, key=keys)
        return grouped.GroupedTable(grouping.TableGrouping(NodeOutput(builder, node, keys, values), name))

    def _add(
        self,
        kind: Callable[..., Any],
        label: str,
        name: str | None,
        store: Any,
        serde: Serde[Any] | None,
        **fields: Any,
    ) -> Table[Any, Any]:
        output, builder = self._internals, self._internals.builder
        label = builder.name(name, label, output.node)
        spec = None
        if store is not None:
            values = builder.serde(serde, "value")
            spec = key_value(Materialized.of(store), f"{label}-store", output.key_serde, values)
            serde = spec.value
        node = kind(name=label, at=caller(), parent=output.node, store=spec, **fields)
        builder.add(node, lineage=spec.name if spec else None)
        return self._derived(output.then(node, value=serde))

    def _derived(self, output: NodeOutput) -> Table[Any, Any]:
        """Returns a table with the keys of this one."""
        return Table(output)


class WindowedTable(Table[K, V]):
    """The result of a windowed aggregation: a table whose keys are `Windowed`."""

    def __init__(self, output: NodeOutput, inputs: tuple[NodeOutput, ...]) -> None:
        super().__init__(output)
        self._inputs = inputs

    def _derived(self, output: NodeOutput) -> WindowedTable[Any, Any]:
        return WindowedTable(output, self._inputs)

    def late(self, *, name: str | None = None) -> Stream[Any, Any]:
        """Returns the late records, which arrived after all their windows had closed, as a stream.

        They are also counted as dropped. The stream has the keys and values of the aggregated stream.

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
        builder, table = self._internals.builder, self._internals.node
        label = builder.name(name, "late", table, base=table.name)
        late = []
        for index, aggregate in enumerate(self._inputs):
            node = aggregate.node
            own = label if index == 0 else builder.name(None, "late", node, base=node.name)
            side = builder.add(Late(name=own, at=caller(), parent=node))
            late.append(streams.Stream[Any, Any](aggregate.then(side)))
        return late[0] if len(late) == 1 else late[0].merge(*late[1:])


@suggesting_attributes
class GlobalTable(Dataset[K, V]):
    """A table of which every task has a full copy, so that a stream can join it by any key."""

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store that contains the table; None if the user did not name it."""
        return _store_name(self._internals)


def _store_name(output: NodeOutput) -> str | None:
    spec = getattr(output.node, "store", None)
    return spec.name if spec is not None and spec.named else None
