"""Joins of tables, by primary key and by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from millstream.core.callsite import caller
from millstream.dsl import table as tables
from millstream.dsl.internals import Dataset, NodeOutput, internals_of
from millstream.dsl.options import Materialized, TableJoinOptions, ValueStoreOptions
from millstream.dsl.stores import key_value
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan.joins import (
    ForeignKeyAnswer,
    ForeignKeyResolve,
    ForeignKeySubscribe,
    JoinKind,
    TableTableJoin,
)
from millstream.serde import BYTES
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.dsl.table import Table
    from millstream.expr import Expr
    from millstream.plan.functions import Function

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
VO = TypeVar("VO")


@suggesting_methods
class TableJoinOperators(Dataset[K, V]):
    """The joins of a `Table`."""

    @overload
    def join(
        self, other: Table[Any, VO], joiner: Callable[[V, VO], V2], **options: Unpack[TableJoinOptions]
    ) -> Table[K, V2]: ...
    @overload
    def join(
        self, other: Table[Any, VO], joiner: Callable[[K, V, VO], V2], **options: Unpack[TableJoinOptions]
    ) -> Table[K, V2]: ...
    @overload
    def join(self, other: Table[Any, VO], joiner: Expr, **options: Unpack[TableJoinOptions]) -> Table[K, Any]: ...
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
        """Joins the rows of two tables with equal keys. A change on either side updates the result.

        A row without a match has no result. The primary-key join never repartitions; the foreign-key join has two
        repartition topics and a store of subscriptions.

        Args:
            other: The right table.
            joiner: Returns the value of the result, given the left and the right value, or key, left and right.
            on: Returns the foreign key, that is the key of the right row, given the left value or key and value. Many
                left rows can join one right row. Default: a primary-key join.
            value: Serde of the results.
            store: Name of a store for the result, or `Materialized`.
            name: Name of the operator.
        """
        return tables.Table(join(self._internals, other, "inner", joiner, on, value, store, name))

    @overload
    def left_join(
        self, other: Table[Any, VO], joiner: Callable[[V, VO | None], V2], **options: Unpack[TableJoinOptions]
    ) -> Table[K, V2]: ...
    @overload
    def left_join(
        self, other: Table[Any, VO], joiner: Callable[[K, V, VO | None], V2], **options: Unpack[TableJoinOptions]
    ) -> Table[K, V2]: ...
    @overload
    def left_join(self, other: Table[Any, VO], joiner: Expr, **options: Unpack[TableJoinOptions]) -> Table[K, Any]: ...
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
        """Joins as `join`, and also yields rows of this table without a match: the right value is then None."""
        return tables.Table(join(self._internals, other, "left", joiner, on, value, store, name))

    @overload
    def outer_join(
        self, other: Table[K, VO], joiner: Callable[[V | None, VO | None], V2], **options: Unpack[ValueStoreOptions]
    ) -> Table[K, V2]: ...
    @overload
    def outer_join(
        self, other: Table[K, VO], joiner: Callable[[K, V | None, VO | None], V2], **options: Unpack[ValueStoreOptions]
    ) -> Table[K, V2]: ...
    @overload
    def outer_join(self, other: Table[K, VO], joiner: Expr, **options: Unpack[ValueStoreOptions]) -> Table[K, Any]: ...
    def outer_join(
        self,
        other: Any,
        joiner: Any,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Joins as `join`, and also yields rows of either table without a match: the other value is then None."""
        return tables.Table(join(self._internals, other, "outer", joiner, None, value, store, name))


def join(
    left: NodeOutput,
    other: Any,
    how: JoinKind,
    joiner: Any,
    on: Any,
    value: Any,
    store: str | Materialized | None,
    name: str | None,
) -> NodeOutput:
    """Adds a join of two tables: by foreign key if ``on`` is given, else by primary key."""
    call = "join" if how == "inner" else f"{how}_join"
    if not isinstance(other, tables.Table):
        hint = None
        if isinstance(other, tables.GlobalTable):
            hint = "join the changes of the table (to_stream()) with the global table, or read its topic as a table"
        raise TopologyError(f"{call}: expected a table, got {other!r}", hint=hint)
    right = internals_of(other)
    builder = left.builder
    if on is None:
        builder.check_same_keys(call, left.key, right.key)
    kind = ("join" if how == "inner" else f"{how}-join") if on is None else "foreign-key-join"
    label = builder.name(name, kind, left.node, right.node)
    function, result = left.joiner(right, joiner, value)
    options = Materialized.of(store)
    spec = key_value(options, f"{label}-store", left.key_serde, builder.serde(result, "value"))
    if on is not None:
        stem = name if name is not None else options.name
        if stem is None:
            stem = builder.topic_name(builder.stem(kind, left.node, right.node))
        return _foreign_key(left, right, how, function, on, (label, stem), spec)
    node = TableTableJoin(
        name=label,
        at=caller(),
        left=left.node,
        right=right.node,
        how=how,
        joiner=function,
        store=spec if store is not None else None,
    )
    builder.add(node, lineage=options.name or label)
    return left.then(node, value=result)


def _foreign_key(
    left: NodeOutput,
    right: NodeOutput,
    how: JoinKind,
    function: Function,
    on: Any,
    names: tuple[str, str],
    spec: StoreSpec,
) -> NodeOutput:
    """Adds a foreign-key join: left rows send subscriptions to right rows, which send answers back."""
    label, stem = names
    builder = left.builder
    subscribe = ForeignKeySubscribe(
        name=builder.name(None, "subscribe", base=label),
        at=caller(),
        parent=left.node,
        foreign_key=left.function(on, "on"),
        how=how,
        left_key=left.key_serde,
        left_value=left.value_serde,
        right_key=right.key_serde,
    )
    builder.add(subscribe)
    subscriptions = builder.repartition(subscribe, f"{stem}-subscription", right.key_serde, BYTES)
    answer = ForeignKeyAnswer(
        name=builder.name(None, "answer", base=label),
        at=caller(),
        subscriptions=subscriptions,
        right=right.node,
        left_key=left.key_serde,
        right_key=right.key_serde,
        right_value=right.value_serde,
        store=StoreSpec(name=f"{stem}-subscriptions-store", kind="key-value", key=BYTES, value=BYTES, grouped=True),
    )
    builder.add(answer)
    answers = builder.repartition(answer, f"{stem}-answer", left.key_serde, BYTES)
    node = ForeignKeyResolve(
        name=label,
        at=caller(),
        parent=answers,
        left=left.node,
        how=how,
        joiner=function,
        left_value=left.value_serde,
        right_value=right.value_serde,
        store=spec,
    )
    builder.add(node, lineage=spec.name if spec.named else label)
    return left.then(node, value=spec.value)
