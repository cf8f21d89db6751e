"""Joins of tables: by key, and by foreign key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.callsite import caller
from millstream.dsl import table as tables
from millstream.dsl.options import Materialized
from millstream.dsl.stores import key_value
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

_JOINER = ("key", "left", "right")


def join(
    left: Table[Any, Any],
    right: Table[Any, Any],
    how: JoinKind,
    joiner: Any,
    on: Any,
    value: Any,
    store: str | Materialized | None,
    name: str | None,
) -> Table[Any, Any]:
    """Joins two tables, by foreign key if ``on`` gives one."""
    call = "join" if how == "inner" else f"{how}_join"
    if not isinstance(right, tables.Table):
        hint = None
        if isinstance(right, tables.GlobalTable):
            hint = "join the stream of the changes (to_stream()) with the global table, or read its topic as a table"
        raise TopologyError(f"{call}: expected a table, got {right!r}", hint=hint)
    builder = left._builder
    if on is None:
        builder.check_same_keys(call, left._key, right._key)
    kind = ("join" if how == "inner" else f"{how}-join") if on is None else "foreign-key-join"
    label = builder.name(name, kind, left._node, right._node)
    function = builder.function(joiner, _JOINER, "joiner", key=left._key, left=left._value, right=right._value)
    result = builder.result_serde(value, function, "value", key=left._key, left=left._value, right=right._value)
    options = Materialized.of(store)
    key = builder.serde(left._key, "key")
    spec = key_value(options, f"{label}-store", key, builder.serde(result, "value"))
    if on is not None:
        inner = next((given for given in (name, options.name) if given is not None), None)
        stem = inner if inner is not None else builder.topic_name(builder.stem(kind, left._node, right._node))
        return _foreign_key(left, right, how, function, on, (label, stem), spec)
    node = TableTableJoin(
        name=label,
        at=caller(),
        left=left._node,
        right=right._node,
        how=how,
        joiner=function,
        store=spec if store is not None else None,
    )
    builder.add(node, lineage=options.name or label)
    return tables.Table(builder, node, left._key, result)


def _foreign_key(
    left: Table[Any, Any],
    right: Table[Any, Any],
    how: JoinKind,
    function: Any,
    on: Any,
    names: tuple[str, str],
    spec: StoreSpec,
) -> Table[Any, Any]:
    """A foreign-key join is a conversation: subscriptions go to the right rows, answers come back to the left ones."""
    label, stem = names
    builder = left._builder
    left_key, right_key = builder.serde(left._key, "key"), builder.serde(right._key, "key")
    left_value, right_value = builder.serde(left._value, "value"), builder.serde(right._value, "value")
    subscribe = ForeignKeySubscribe(
        name=builder.name(None, "subscribe", base=label),
        at=caller(),
        parent=left._node,
        foreign_key=builder.function(on, ("key", "value"), "on", key=left._key, value=left._value),
        how=how,
        left_key=left_key,
        left_value=left_value,
        right_key=right_key,
    )
    builder.add(subscribe)
    asked = builder.repartition(subscribe, f"{stem}-subscription", right_key, BYTES)
    answer = ForeignKeyAnswer(
        name=builder.name(None, "answer", base=label),
        at=caller(),
        subscriptions=asked,
        right=right._node,
        left_key=left_key,
        right_key=right_key,
        right_value=right_value,
        store=StoreSpec(name=f"{stem}-subscriptions-store", kind="key-value", key=BYTES, value=BYTES, grouped=True),
    )
    builder.add(answer)
    answers = builder.repartition(answer, f"{stem}-answer", left_key, BYTES)
    node = ForeignKeyResolve(
        name=label,
        at=caller(),
        parent=answers,
        left=left._node,
        how=how,
        joiner=function,
        left_value=left_value,
        right_value=right_value,
        store=spec,
    )
    builder.add(node, lineage=spec.name if spec.named else label)
    return tables.Table(builder, node, left._key, spec.value)
