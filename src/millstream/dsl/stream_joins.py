"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from millstream.core.callsite import caller
from millstream.core.durations import show_ms, to_ms
from millstream.dsl import stream as streams, table as tables
from millstream.dsl.internals import Dataset, NodeOutput, internals_of
from millstream.dsl.options import StreamGlobalTableOptions, StreamStreamOptions, StreamTableOptions
from millstream.dsl.suggesting import check_options, suggesting_methods
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.plan.joins import JoinKind, StreamGlobalJoin, StreamStreamJoin, StreamTableJoin
from millstream.plan.sources import GlobalTable as GlobalTableNode
from millstream.plan.walk import history
from millstream.plan.windows import JoinWindow
from millstream.serde import BYTES, HEADERS, LONG, tuple_of
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.dsl.stream import JoinedStream, Stream
    from millstream.dsl.table import GlobalTable, Table

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
VO = TypeVar("VO")


@suggesting_methods
class JoinOperators(Dataset[K, V]):
    """The joins of a `Stream`."""

    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self, other: Table[K, VO], joiner: Callable[[V, VO], V2], **options: Unpack[StreamTableOptions]
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self, other: Table[K, VO], joiner: Callable[[K, V, VO], V2], **options: Unpack[StreamTableOptions]
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self, other: GlobalTable[Any, VO], joiner: Callable[[V, VO], V2], **options: Unpack[StreamGlobalTableOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self, other: GlobalTable[Any, VO], joiner: Callable[[K, V, VO], V2], **options: Unpack[StreamGlobalTableOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins the stream with a stream, a table or a global table. Records without a match yield no result.

        - With a **stream**: joins each pair of records with the same key whose timestamps are within the ``window``
          (`join_window`). Stateful: each side has a window store.
        - With a **table**: joins each record with the current row of its key; of a versioned table, with the row that
          was valid at its timestamp. With ``grace=…``, records first wait that long in stream time, so that the table,
          which must be versioned, can catch up.
        - With a **global table**: joins each record with the row whose key ``on=…`` returns. Never repartitions.

        Joins with a stream or a table repartition each stream whose key was changed. Records with a null value, and
        records with a null key (global table: for which ``on`` returns None), are dropped (and counted).

        Args:
            other: The right side.
            joiner: Returns the value of the result, given the left and the right value, or key, left and right. As an
                expression: ``left("a") + right("b")``.
            window: The greatest time difference, for a join of streams.
            **options: ``value=``: serde of the results. ``name=``: name of the operator. ``left_value=`` and
                ``right_value=`` (streams): serdes of the stored values. ``grace=`` (table): how long records wait.
                ``on=`` (global table): function of the value, or of key and value; default: the key.
        """
        return join(self._internals, other, "inner", joiner, window, options)

    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO | None], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO | None], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self, other: Table[K, VO], joiner: Callable[[V, VO | None], V2], **options: Unpack[StreamTableOptions]
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self, other: Table[K, VO], joiner: Callable[[K, V, VO | None], V2], **options: Unpack[StreamTableOptions]
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[V, VO | None], V2],
        **options: Unpack[StreamGlobalTableOptions],
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[K, V, VO | None], V2],
        **options: Unpack[StreamGlobalTableOptions],
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def left_join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins as `join`, and also emits records of this stream without a match: the right value is then None.

        In a join of streams, an unmatched record is emitted when its window closes. Records of this stream with a null
        key (global table: for which ``on`` returns None) are emitted unmatched.
        """
        return join(self._internals, other, "left", joiner, window, options)

    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V | None, VO | None], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V | None, VO | None], V2],
        window: JoinWindow,
        **options: Unpack[StreamStreamOptions],
    ) -> JoinedStream[K, V2]: ...
    @overload
    def outer_join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def outer_join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins two streams as `left_join`, and also emits records of the other stream without a match."""
        return join(self._internals, other, "outer", joiner, window, options)


def join(
    left: NodeOutput, other: Any, how: JoinKind, joiner: Any, window: JoinWindow | None, options: dict[str, Any]
) -> Any:
    """Adds the join for the type of the right side: a stream, a table or a global table."""
    call = "join" if how == "inner" else f"{how}_join"
    if isinstance(other, streams.Stream):
        if not isinstance(window, JoinWindow):
            raise TopologyError(
                f"{call}: a join of two streams needs a window, got {window!r}",
                hint='add join_window("5s") after the joiner',
            )
        check_options(call, options, StreamStreamOptions)
        right = internals_of(other)
        left.builder.check_same_keys(call, left.key, right.key)
        return _stream_stream(left, right, how, joiner, window, **options)
    if window is not None:
        raise TopologyError(f"{call}: only a join of two streams takes a window", hint="leave the window out")
    if isinstance(other, tables.Table):
        check_options(call, options, StreamTableOptions)
        right = internals_of(other)
        left.builder.check_same_keys(call, left.key, right.key)
        return _stream_table(left, right, how, joiner, **options)
    if isinstance(other, tables.GlobalTable):
        check_options(call, options, StreamGlobalTableOptions)
        return _stream_global(left, internals_of(other), how, joiner, **options)
    raise TopologyError(f"{call}: expected a stream, a table or a global table, got {other!r}")


def _stream_stream(
    left: NodeOutput,
    right: NodeOutput,
    how: JoinKind,
    joiner: Any,
    window: JoinWindow,
    *,
    value: Any = None,
    name: str | None = None,
    left_value: Any = None,
    right_value: Any = None,
) -> JoinedStream[Any, Any]:
    builder = left.builder
    label = builder.name(name, "join" if how == "inner" else f"{how}-join", left.node, right.node)
    left = left.joinable(None if name is None else f"{name}-left")
    right = right.joinable(None if name is None else f"{name}-right")
    if name is None:
        builder.check_explicit(label)
    function, result = left.joiner(right, joiner, value)
    key = left.key_serde

    def rows(side: str, output: NodeOutput, declared: Any) -> StoreSpec:
        return StoreSpec(
            name=f"{label}-{side}-store",
            kind="window",
            key=key,
            value=output.declared(None, declared).value_serde,
            retention_ms=window.retention,
            window_size_ms=window.before + window.after,
            duplicates=True,
        )

    def unmatched(side: str, output: NodeOutput, *, outer: bool) -> StoreSpec | None:
        if not outer or window.eager:
            return None
        fields = tuple_of(key, output.value_serde, keys=1)
        return StoreSpec(name=f"{label}-{side}-unmatched-store", kind="buffer", key=BYTES, value=fields)

    node = StreamStreamJoin(
        name=label,
        at=caller(),
        left=left.node,
        right=right.node,
        how=how,
        joiner=function,
        window=window,
        left_store=rows("left", left, left_value),
        right_store=rows("right", right, right_value),
        left_unmatched=unmatched("left", left, outer=how != "inner"),
        right_unmatched=unmatched("right", right, outer=how == "outer"),
    )
    builder.add(node, lineage=label)
    same = left.value is not None and right.value is not None and left.value.name == right.value.name
    return streams.JoinedStream(left.then(node, value=result), left.value if same else None)


def _stream_table(
    stream: NodeOutput,
    table: NodeOutput,
    how: JoinKind,
    joiner: Any,
    *,
    value: Any = None,
    name: str | None = None,
    grace: Any = None,
) -> JoinedStream[Any, Any]:
    if how == "outer":
        raise TopologyError(
            "outer_join: a stream and a table have no outer join", hint="use left_join, or convert one into the other"
        )
    builder = stream.builder
    label = builder.name(name, "join" if how == "inner" else "left-join", stream.node, table.node)
    stream = stream.joinable(name)
    function, result = stream.joiner(table, joiner, value)
    buffer = None
    wait = None
    if grace is not None:
        wait = _checked_grace(grace, history(table.node))
        fields = tuple_of(stream.key_serde, stream.value_serde, LONG, HEADERS, keys=1)
        buffer = StoreSpec(name=f"{label}-buffer-store", kind="buffer", key=BYTES, value=fields)
    node = StreamTableJoin(
        name=label,
        at=caller(),
        parent=stream.node,
        table=table.node,
        how=how,
        joiner=function,
        grace=wait,
        buffer=buffer,
        key=stream.key_serde,
        value=stream.value_serde,
    )
    builder.add(node, lineage=label)
    return streams.JoinedStream(stream.then(node, value=result), stream.value)


def _checked_grace(grace: Any, history_ms: int | None) -> int:
    wait = to_ms(grace, "grace")
    if wait < 0:
        raise TopologyError(f"grace must not be negative, got {show_ms(wait)}")
    if history_ms is None:
        raise TopologyError(
            "a grace period needs a versioned table",
            hint='give the table a history: store=Materialized("name", history="1h")',
        )
    if wait > history_ms:
        raise TopologyError(
            f"grace {show_ms(wait)} is longer than the table's history ({show_ms(history_ms)})",
            hint="a record that waits longer than the history would not find its row",
        )
    return wait


def _stream_global(
    stream: NodeOutput,
    table: NodeOutput,
    how: JoinKind,
    joiner: Any,
    *,
    on: Any = None,
    value: Any = None,
    name: str | None = None,
) -> Stream[Any, Any]:
    if how == "outer":
        raise TopologyError("outer_join: a stream and a global table have no outer join", hint="use left_join")
    assert isinstance(table.node, GlobalTableNode)
    builder = stream.builder
    select = stream.function(on if on is not None else (lambda key, _value: key), "on")
    function, result = stream.joiner(table, joiner, value)
    node = StreamGlobalJoin(
        name=builder.name(name, "join" if how == "inner" else "left-join", stream.node, table.node),
        at=caller(),
        parent=stream.node,
        table=table.node,
        how=how,
        select_key=select,
        joiner=function,
    )
    return streams.Stream(stream.then(builder.add(node), value=result))
