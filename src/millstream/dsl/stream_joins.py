"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.durations import Duration, show_ms, to_ms
from millstream.dsl import stream as streams, table as tables
from millstream.dsl.stream_base import StreamBase
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError, suggestion
from millstream.expr import Expr
from millstream.plan.joins import JoinKind, StreamGlobalJoin, StreamStreamJoin, StreamTableJoin
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
_JOINER = ("key", "left", "right")


@suggesting_methods
class JoinOperators(StreamBase[K, V]):
    """The joins of a `Stream`."""

    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO], V2],
        *,
        value: Any = None,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[K, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        value: Any = None,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[V, VO], V2],
        *,
        value: Any = None,
        name: str | None = None,
        on: Callable[..., Any] | Expr | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        value: Any = None,
        name: str | None = None,
        on: Callable[..., Any] | Expr | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins with a stream, a table or a global table; only what matches comes out.

        - With a **stream**: every pair of records of one key whose times fit the ``window`` (`join_window`).
        - With a **table**: each record with the row that its key has at that moment. ``grace=…`` makes records wait
          in stream time for the table, which must then be versioned.
        - With a **global table**: each record with the row whose key ``on=…`` gives.

        Args:
            other: What to join with.
            joiner: Of the left and the right value, or of key, left and right. As an expression: ``left("a") +
                right("b")``.
            window: For streams: how near in time.
            **options: ``value=`` serde of the results; ``name=``; ``grace=`` (table); ``on=`` (global table).
        """
        return join(self, other, "inner", joiner, window, options)

    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO | None], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO | None], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        value: Any = None,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        value: Any = None,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        value: Any = None,
        name: str | None = None,
        on: Callable[..., Any] | Expr | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[Any, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        value: Any = None,
        name: str | None = None,
        on: Callable[..., Any] | Expr | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def left_join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins as `join`, and keeps records of this stream that match nothing: the right value is then None.

        Joined with a stream, an unmatched record comes out when its window has closed.
        """
        return join(self, other, "left", joiner, window, options)

    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V | None, VO | None], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V | None, VO | None], V2],
        window: JoinWindow,
        *,
        value: Any = None,
        name: str | None = None,
        left_value: Any = None,
        right_value: Any = None,
    ) -> JoinedStream[K, V2]: ...
    @overload
    def outer_join(
        self, other: Any, joiner: Expr, window: JoinWindow | None = None, **options: Any
    ) -> JoinedStream[K, Any]: ...
    def outer_join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins two streams as `left_join`, and keeps unmatched records of both sides."""
        return join(self, other, "outer", joiner, window, options)


def join(left: Any, other: Any, how: JoinKind, joiner: Any, window: JoinWindow | None, options: dict[str, Any]) -> Any:
    """Makes the join that fits what the other side is."""
    call = "join" if how == "inner" else f"{how}_join"
    if isinstance(other, streams.Stream):
        if not isinstance(window, JoinWindow):
            raise TopologyError(
                f"{call}: two streams are joined within a window of time, got {window!r}",
                hint='add join_window("5s") after the joiner',
            )
        _allow(call, options, "value", "name", "left_value", "right_value")
        left._builder.check_same_keys(call, left._key, other._key)
        return _stream_stream(left, other, how, joiner, window, **options)
    if window is not None:
        raise TopologyError(f"{call}: only a join of two streams takes a window", hint="leave the window out")
    if isinstance(other, tables.Table):
        _allow(call, options, "value", "name", "grace")
        left._builder.check_same_keys(call, left._key, other._key)
        return _stream_table(left, other, how, joiner, **options)
    if isinstance(other, tables.GlobalTable):
        _allow(call, options, "value", "name", "on")
        return _stream_global(left, other, how, joiner, **options)
    raise TopologyError(f"{call}: expected a stream, a table or a global table, got {other!r}")


def _allow(call: str, options: dict[str, Any], *known: str) -> None:
    for option in options:
        if option not in known:
            hint = suggestion(option, known) or f"it takes: {', '.join(known)}"
            raise TopologyError(f"{call}: unknown option {option!r}", hint=hint)


def _stream_stream(
    left: Stream[Any, Any],
    right: Stream[Any, Any],
    how: JoinKind,
    joiner: Any,
    window: JoinWindow,
    *,
    value: Any = None,
    name: str | None = None,
    left_value: Any = None,
    right_value: Any = None,
) -> JoinedStream[Any, Any]:
    builder = left._builder
    given, name = name, builder.name(name, "join" if how == "inner" else f"{how}-join", left._node, right._node)
    left = left._joinable(None if given is None else f"{given}-left")
    right = right._joinable(None if given is None else f"{given}-right")
    if given is None:
        builder.check_explicit(name)
    function = builder.function(joiner, _JOINER, "joiner", key=left._key, left=left._value, right=right._value)
    key = builder.serde(left._key, "key")

    def side(which: str, stream: Stream[Any, Any], declared: Any) -> StoreSpec:
        return StoreSpec(
            name=f"{name}-{which}-store",
            kind="window",
            key=key,
            value=builder.serde(stream._given(declared, "value") or stream._value, "value"),
            retention_ms=window.retention,
            window_size_ms=window.before + window.after,
            duplicates=True,
        )

    def unmatched(which: str, stream: Stream[Any, Any], *, outer: bool) -> StoreSpec | None:
        fields = tuple_of(key, builder.serde(stream._value, "value"))
        spec = StoreSpec(name=f"{name}-{which}-unmatched-store", kind="buffer", key=BYTES, value=fields)
        return spec if outer and not window.eager else None

    node = StreamStreamJoin(
        name=name,
        at=caller(),
        left=left._node,
        right=right._node,
        how=how,
        joiner=function,
        window=window,
        left_store=side("left", left, left_value),
        right_store=side("right", right, right_value),
        left_unmatched=unmatched("left", left, outer=how != "inner"),
        right_unmatched=unmatched("right", right, outer=how == "outer"),
    )
    builder.add(node, lineage=name)
    result = builder.result_serde(value, function, "value", key=left._key, left=left._value, right=right._value)
    same = left._value is not None and right._value is not None and left._value.name == right._value.name
    return streams.JoinedStream(builder, node, left._key, result, left._value if same else None)


def _stream_table(
    stream: Stream[Any, Any],
    table: Table[Any, Any],
    how: JoinKind,
    joiner: Any,
    *,
    value: Any = None,
    name: str | None = None,
    grace: Any = None,
) -> JoinedStream[Any, Any]:
    if how == "outer":
        raise TopologyError(
            "outer_join: a stream and a table have no outer join", hint="use left_join, or turn one into the other"
        )
    builder = stream._builder
    given, name = name, builder.name(name, "join" if how == "inner" else "left-join", stream._node, table._node)
    stream = stream._joinable(given)
    function = builder.function(joiner, _JOINER, "joiner", key=stream._key, left=stream._value, right=table._value)
    buffer = None
    wait = None
    if grace is not None:
        wait = to_ms(grace, "grace")
        if wait < 0:
            raise TopologyError(f"grace must not be negative, got {show_ms(wait)}")
        history = table._history()
        if history is None:
            raise TopologyError(
                "a grace period needs a versioned table",
                hint='give the table a history: store=Materialized("name", history="1h")',
            )
        if wait > history:
            raise TopologyError(
                f"grace {show_ms(wait)} is longer than the table's history ({show_ms(history)})",
                hint="a record that waited longer than the history could not find its row",
            )
        fields = tuple_of(builder.serde(stream._key, "key"), builder.serde(stream._value, "value"), LONG, HEADERS)
        buffer = StoreSpec(name=f"{name}-buffer-store", kind="buffer", key=BYTES, value=fields)
    node = StreamTableJoin(
        name=name,
        at=caller(),
        parent=stream._node,
        table=table._node,
        how=how,
        joiner=function,
        grace=wait,
        buffer=buffer,
        key=builder.serde(stream._key, "key"),
        value=builder.serde(stream._value, "value"),
    )
    builder.add(node, lineage=name)
    result = builder.result_serde(value, function, "value", key=stream._key, left=stream._value, right=table._value)
    return streams.JoinedStream(builder, node, stream._key, result, stream._value)


def _stream_global(
    stream: Stream[Any, Any],
    table: GlobalTable[Any, Any],
    how: JoinKind,
    joiner: Any,
    *,
    on: Any = None,
    value: Any = None,
    name: str | None = None,
) -> Stream[Any, Any]:
    if how == "outer":
        raise TopologyError("outer_join: a stream and a global table have no outer join", hint="use left_join")
    builder = stream._builder
    select = builder.function(
        on if on is not None else (lambda key, _value: key),
        ("key", "value"),
        "on",
        key=stream._key,
        value=stream._value,
    )
    function = builder.function(joiner, _JOINER, "joiner", key=stream._key, left=stream._value, right=table._value)
    node = StreamGlobalJoin(
        name=builder.name(name, "join" if how == "inner" else "left-join", stream._node, table._node),
        at=caller(),
        parent=stream._node,
        table=table._node,
        how=how,
        select_key=select,
        joiner=function,
    )
    builder.add(node)
    result = builder.result_serde(value, function, "value", key=stream._key, left=stream._value, right=table._value)
    return streams.Stream(builder, node, stream._key, result, rekeyed=stream._rekeyed)
