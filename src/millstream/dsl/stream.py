"""Streams: unending sequences of records, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from millstream.callsite import caller
from millstream.dsl import compositions, grouped, stream_joins, table
from millstream.dsl.options import Materialized
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.names import check_name
from millstream.plan import process as process_nodes, stateless
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.serde import serde_for

if TYPE_CHECKING:
    from millstream.dsl.builder import Builder
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.processors import FixedKeyProcessor, Processor
    from millstream.dsl.table import GlobalTable, Table
    from millstream.durations import Duration
    from millstream.plan.windows import JoinWindow
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")
KO = TypeVar("KO")

_KEY_VALUE = ("key", "value")


@suggesting_methods
class Stream(Generic[K, V]):
    """A stream of records: every record is a fact of its own.

    Streams are made by `App.stream` and by the methods here, which never change the stream they are called on.
    Functions may take the value, or the key and the value: their arity tells. An expression can stand for a function.
    """

    def __init__(
        self,
        builder: Builder,
        node: Node,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        rekeyed: bool = False,
    ) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._rekeyed = rekeyed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.name})"

    # ----- stateless -------------------------------------------------------------------------------------------

    def filter(self, predicate: Callable[..., object] | Expr, *, name: str | None = None) -> Stream[K, V]:
        """Passes the records for which the predicate holds. Stateless.

        Records with a null key or value are given to the predicate like all others.

        >>> from millstream import App, TestDriver, col
        >>> app = App("filtering")
        >>> app.stream("orders").filter(col("amount") > 10).to("large")
        >>> with TestDriver(app) as driver:
        ...     driver.input("orders").pipe("a", {"amount": 5})
        ...     driver.input("orders").pipe("b", {"amount": 50})
        ...     driver.output("large").read_values()
        [{'amount': 50}]
        """
        return self._filter("filter", predicate, name, negate=False)

    def filter_not(self, predicate: Callable[..., object] | Expr, *, name: str | None = None) -> Stream[K, V]:
        """Passes the records for which the predicate does not hold. Stateless."""
        return self._filter("filter-not", predicate, name, negate=True)

    def _filter(self, kind: str, predicate: Any, name: str | None, *, negate: bool) -> Stream[K, V]:
        node = self._add(
            stateless.Filter,
            kind,
            name,
            predicate=self._function(predicate, kind.replace("-", "_")),
            negate=negate,
        )
        return self._next(node)

    def select_key(
        self, function: Callable[[K, V], K2] | Callable[[V], K2] | Expr, *, key: Any = None, name: str | None = None
    ) -> Stream[K2, V]:
        """Gives each record a new key. Stateless.

        A grouping or join that follows sends the records through a repartition topic, so that equal keys meet.

        Args:
            function: Of the value, or of key and value.
            key: Serde of the new keys: a type or a `Serde`.
            name: Name of the operator.
        """
        wrapped = self._function(function, "select_key")
        node = self._add(stateless.SelectKey, "select-key", name, function=wrapped)
        return Stream(self._builder, node, self._result(key, wrapped, "key"), self._value, rekeyed=True)

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]] | Callable[[V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Gives each record a new key and value: the function returns a pair. Stateless.

        A grouping or join that follows sends the records through a repartition topic.
        """
        wrapped = self._function(function, "map")
        node = self._add(stateless.Map, "map", name, function=wrapped)
        return Stream(self._builder, node, self._given(key, "key"), self._given(value, "value"), rekeyed=True)

    def map_values(
        self, function: Callable[[V], V2] | Callable[[K, V], V2] | Expr, *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]:
        """Gives each record a new value. Stateless; the key stays, so nothing is repartitioned.

        >>> from millstream import App, TestDriver, col
        >>> app = App("mapping")
        >>> app.stream("words", value=str).map_values(str.upper, value=str).to("loud")
        >>> with TestDriver(app) as driver:
        ...     driver.input("words").pipe("hello")
        ...     driver.output("loud").read_values()
        ['HELLO']
        """
        wrapped = self._function(function, "map_values")
        node = self._add(stateless.MapValues, "map-values", name, function=wrapped)
        return Stream(self._builder, node, self._key, self._result(value, wrapped, "value"), rekeyed=self._rekeyed)

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]] | Callable[[V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Turns each record into any number of records: the function returns (key, value) pairs. Stateless."""
        wrapped = self._function(function, "flat_map")
        node = self._add(stateless.FlatMap, "flat-map", name, function=wrapped)
        return Stream(self._builder, node, self._given(key, "key"), self._given(value, "value"), rekeyed=True)

    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]] | Callable[[K, V], Iterable[V2]] | Expr,
        *,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Turns each record into any number of records of the same key: the function returns values. Stateless."""
        wrapped = self._function(function, "flat_map_values")
        node = self._add(stateless.FlatMapValues, "flat-map-values", name, function=wrapped)
        return Stream(self._builder, node, self._key, self._given(value, "value"), rekeyed=self._rekeyed)

    def peek(
        self, action: Callable[[K, V], object] | Callable[[V], object], *, name: str | None = None
    ) -> Stream[K, V]:
        """Calls a function for each record, for its side effect, and passes the record on. Stateless.

        The call is made at least once for each record: after a crash it may be made again.
        """
        return self._next(self._add(stateless.Peek, "peek", name, function=self._function(action, "peek")))

    def foreach(self, action: Callable[[K, V], object] | Callable[[V], object], *, name: str | None = None) -> None:
        """Calls a function for each record, for its side effect; nothing follows. At least once, as `peek`."""
        self._add(stateless.Foreach, "foreach", name, function=self._function(action, "foreach"))

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record, after a label: ``[label]: key, value``."""
        shown = label or self._node.name

        def show(key: K, value: V) -> None:
            print(f"[{shown}]: {key}, {value}")  # noqa: T201

        self._add(stateless.Foreach, "print", name, function=self._function(show, "print"))

    def split(
        self,
        branches: Mapping[str, Callable[..., object] | Expr],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """Deals each record to the first branch whose predicate holds. Stateless.

        Args:
            branches: The predicates by the names of their branches, in the order in which they are asked.
            default: Name of a branch for records that no predicate takes; without it they are dropped.
            name: Name of the operator.

        Returns:
            The streams by name, the default one included.

        >>> from millstream import App, TestDriver, value
        >>> app = App("routing")
        >>> lines = app.stream("log", value=str).split({"errors": value().starts_with("ERROR")}, default="rest")
        >>> lines["errors"].to("high-priority")
        >>> with TestDriver(app) as driver:
        ...     driver.input("log").pipe("ERROR disk full")
        ...     driver.input("log").pipe("INFO fine")
        ...     driver.output("high-priority").read_values()
        ['ERROR disk full']
        """
        names = [*branches, *([default] if default is not None else [])]
        if len(set(names)) != len(names):
            raise TopologyError(f"split: the default branch {default!r} has the name of another branch")
        for branch in names:
            check_name(branch, "branch")
        predicates = tuple(self._function(p, f"split, branch {n!r}") for n, p in branches.items())
        node = self._add(stateless.Branch, "split", name, predicates=predicates, default=default is not None)
        outputs = {}
        for index, branch in enumerate(names):
            label = self._builder.name(None, branch, node, base=node.name)
            output = stateless.BranchOutput(name=label, at=caller(), parent=node, index=index)
            lineage = f"{self._builder.lineage(node)}-{branch}"
            outputs[branch] = self._next(self._builder.add(output, lineage=lineage))
        return outputs

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """The records of this stream and of others. There is no order between records of different streams."""
        parents = tuple(dict.fromkeys([self._node, *(other._node for other in others)]))
        rekeyed = self._rekeyed or any(other._rekeyed for other in others)
        key = self._key if all(_same(self._key, o._key) for o in others) else None
        value = self._value if all(_same(self._value, o._value) for o in others) else None
        node = stateless.Merge(name=self._builder.name(name, "merge", *parents), at=caller(), inputs=parents)
        self._builder.add(node, lineage=node.name)
        return Stream(self._builder, node, key, value, rekeyed=rekeyed)

    # ----- through and to topics -------------------------------------------------------------------------------

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[..., int] | None = None,
    ) -> Stream[K, V]:
        """Sends the records through a repartition topic, always.

        Records without a key are dropped (and counted), unless an outer join of streams or a left join follows.

        Args:
            name: Name of the topic, between the application's id and ``-repartition``.
            partitions: How many partitions the topic has; by default as many as the input.
            key: Serde of the keys in the topic.
            value: Serde of the values in the topic.
            partitioner: Function of key, value and the number of partitions, giving the partition.
        """
        if partitions is not None and partitions < 1:
            raise TopologyError(f"repartition: partitions must be at least 1, got {partitions}")
        topic = check_name(name, "repartition topic") if name else self._builder.derived(self._node, "repartition")
        node = self._builder.repartition(
            self._node,
            topic,
            self._builder.serde(self._given(key, "key") or self._key, "key"),
            self._builder.serde(self._given(value, "value") or self._value, "value"),
            partitions=partitions,
            partitioner=_partitioner(partitioner),
        )
        return Stream(self._builder, node, node.key, node.value)

    def to(
        self,
        topic: str | Callable[[K, V], str] | Callable[[V], str] | Expr,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[..., int] | None = None,
        name: str | None = None,
    ) -> None:
        """Writes each record to a topic.

        Args:
            topic: Its name, or a function that names the topic of each record.
            key: Serde of the keys; by default the one that the stream is known to have, else the application's.
            value: Serde of the values; likewise.
            partitioner: Function of key, value and the number of partitions, giving the partition. By default
                Kafka's: murmur2 of the key.
            name: Name of the operator.
        """
        target = check_name(topic, "topic") if isinstance(topic, str) else self._function(topic, "to")
        base = target if isinstance(target, str) else self._builder.lineage(self._node)
        self._builder.add(
            stateless.Sink(
                name=self._builder.name(name, "sink", self._node, base=base),
                at=caller(),
                parent=self._node,
                topic=target,
                key=self._builder.serde(self._given(key, "key") or self._key, "key"),
                value=self._builder.serde(self._given(value, "value") or self._value, "value"),
                partitioner=_partitioner(partitioner),
            )
        )

    # ----- towards tables --------------------------------------------------------------------------------------

    def to_table(
        self,
        *,
        store: str | Materialized | None = None,
        key: Any = None,
        value: Any = None,
        ttl: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Reads the stream as a table: a record is the new value of its key's row, a null value deletes the row.

        Repartitions first if the key was changed. Records without a key are dropped (and counted).

        Args:
            store: Name of the store, or `Materialized`; without it rows are kept only if something looks them up.
            key: Serde of the keys.
            value: Serde of the values.
            ttl: A row that was not updated for this long in stream time is deleted.
            name: Name of the operator.
        """
        return table.make_table(self, store=store, key=key, value=value, ttl=ttl, name=name)

    def group_by_key(self, *, name: str | None = None, key: Any = None, value: Any = None) -> GroupedStream[K, V]:
        """Groups by the key, for an aggregation; repartitions if the key was changed.

        Args:
            name: Name of the repartition topic, if there is one; it is then used for all aggregations of the group.
            key: Serde of the keys.
            value: Serde of the values.
        """
        typed = Stream[K, V](
            self._builder,
            self._node,
            self._given(key, "key") or self._key,
            self._given(value, "value") or self._value,
            rekeyed=self._rekeyed,
        )
        return grouped.GroupedStream(typed, name)

    def group_by(
        self,
        function: Callable[[K, V], K2] | Callable[[V], K2] | Expr,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> GroupedStream[K2, V]:
        """Groups by a new key, for an aggregation: `select_key` and `group_by_key`. Repartitions.

        Args:
            function: Gives the new key, from the value or from key and value.
            key: Serde of the new keys.
            value: Serde of the values.
            name: Name of the repartition topic.
        """
        return self.select_key(function, key=key).group_by_key(name=name, value=value)

    # ----- joins -----------------------------------------------------------------------------------------------

    @overload
    def join(
        self, other: Stream[K, VO], joiner: Callable[..., V2] | Expr, window: JoinWindow, **options: Any
    ) -> JoinedStream[K, V2]: ...
    @overload
    def join(self, other: Table[K, VO], joiner: Callable[..., V2] | Expr, **options: Any) -> JoinedStream[K, V2]: ...
    @overload
    def join(self, other: GlobalTable[KO, VO], joiner: Callable[..., V2] | Expr, **options: Any) -> Stream[K, V2]: ...
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
        return stream_joins.join(self, other, "inner", joiner, window, options)

    @overload
    def left_join(
        self, other: Stream[K, VO], joiner: Callable[..., V2] | Expr, window: JoinWindow, **options: Any
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self, other: Table[K, VO], joiner: Callable[..., V2] | Expr, **options: Any
    ) -> JoinedStream[K, V2]: ...
    @overload
    def left_join(
        self, other: GlobalTable[KO, VO], joiner: Callable[..., V2] | Expr, **options: Any
    ) -> Stream[K, V2]: ...
    def left_join(self, other: Any, joiner: Any, window: JoinWindow | None = None, **options: Any) -> Any:
        """Joins as `join`, and keeps records of this stream that match nothing: the right value is then None.

        Joined with a stream, an unmatched record comes out when its window has closed.
        """
        return stream_joins.join(self, other, "left", joiner, window, options)

    def outer_join(
        self, other: Stream[K, VO], joiner: Callable[..., V2] | Expr, window: JoinWindow, **options: Any
    ) -> JoinedStream[K, V2]:
        """Joins two streams as `left_join`, and keeps unmatched records of both sides."""
        joined: JoinedStream[K, V2] = stream_joins.join(self, other, "outer", joiner, window, options)
        return joined

    # ----- processors ------------------------------------------------------------------------------------------

    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *stores: str,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Gives each record to a processor of the user's own, which may use stores and schedule punctuators.

        Args:
            processor: A `Processor` class, or a function that makes one; each task has its own.
            *stores: Names of stores that were added with `App.add_store`, which the processor may use.
            key: Serde of the keys that it forwards.
            value: Serde of the values that it forwards.
            name: Name of the operator.
        """
        node = self._process("process", processor, stores, name, keeps_key=False)
        return Stream(self._builder, node, self._given(key, "key"), self._given(value, "value"), rekeyed=True)

    def process_values(
        self,
        processor: Callable[[], FixedKeyProcessor[K, V, V2]],
        *stores: str,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Gives each record to a processor that cannot change the key, so that nothing is repartitioned behind it."""
        node = self._process("process-values", processor, stores, name, keeps_key=True)
        return Stream(self._builder, node, self._key, self._given(value, "value"), rekeyed=self._rekeyed)

    def _process(self, kind: str, supplier: Any, stores: tuple[str, ...], name: str | None, *, keeps_key: bool) -> Node:
        if not callable(supplier):
            raise TopologyError(
                f"{kind.replace('-', '_')}: expected a processor class or a function that makes one, got {supplier!r}",
                hint="pass the class itself, not an instance: every task needs a processor of its own",
            )
        for store in stores:
            self._builder.plan().store(store)
        made: Node = self._add(
            process_nodes.Process, kind, name, supplier=supplier, uses=tuple(stores), keeps_key=keeps_key
        )
        return made

    def deduplicate(
        self,
        within: Duration,
        *,
        by: Callable[..., Any] | Expr | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Drops a record if one with the same key (or the same ``by``) came within a span of time before or after it.

        Dropped duplicates are counted. Records without a key pass. A record is compared with all that came within
        ``within`` of its own timestamp, the dropped ones included, so a steady repetition stays one record.

        Args:
            within: How far apart in time two records must be to be different.
            by: What makes records equal among those of one key: a function of the value, or of key and value.
            store: Name of the store in which keys and times are kept.
            name: Name of the operator.

        >>> from millstream import App, TestDriver
        >>> app = App("once")
        >>> app.stream("clicks", value=str).deduplicate("10s").to("unique")
        >>> with TestDriver(app) as driver:
        ...     clicks = driver.input("clicks")
        ...     for time in (0, 9_000, 60_000):
        ...         clicks.pipe("ann", "buy", timestamp=time)
        ...     [r.timestamp for r in driver.output("unique").read_all()]
        [0, 60000]
        """
        return compositions.deduplicate(self, within, by, store, name)

    # ----- inside ----------------------------------------------------------------------------------------------

    def _add(self, kind: Callable[..., Any], label: str, name: str | None, **fields: Any) -> Any:
        fields["name"] = self._builder.name(name, label, self._node)
        return self._builder.add(kind(at=caller(), parent=self._node, **fields))

    def _next(self, node: Node) -> Stream[K, V]:
        return Stream(self._builder, node, self._key, self._value, rekeyed=self._rekeyed)

    def _function(self, target: Any, what: str) -> Any:
        return self._builder.function(target, _KEY_VALUE, what, key=self._key, value=self._value)

    def _given(self, declared: Any, part: str) -> Serde[Any] | None:
        return None if declared is None else serde_for(declared, part)

    def _result(self, declared: Any, function: Any, part: str) -> Serde[Any] | None:
        return self._builder.result_serde(declared, function, part, key=self._key, value=self._value)

    def _copartitioned(self, topic: str) -> Stream[K, V]:
        """This stream, behind a repartition topic if its key was changed."""
        if not self._rekeyed:
            return self
        node = self._builder.repartition(
            self._node,
            topic,
            self._builder.serde(self._key, "key"),
            self._builder.serde(self._value, "value"),
            mergeable=True,
        )
        return Stream(self._builder, node, node.key, node.value)


class JoinedStream(Stream[K, V]):
    """The results of a join with a stream or a table."""

    def __init__(
        self, builder: Builder, node: Node, key: Serde[Any] | None, value: Serde[Any] | None, left: Stream[Any, Any]
    ) -> None:
        super().__init__(builder, node, key, value)
        self._left = left

    def late(self, *, name: str | None = None) -> Stream[K, Any]:
        """The records that came too late to be joined as they should.

        Of a join of streams: records of either side that came when their window had closed and found no partner.
        Of a join with a versioned table that waits (``grace=…``): records that came after the grace period; they were
        joined at once.
        """
        label = self._builder.name(name, "late", self._node, base=self._node.name)
        node = self._builder.add(stateless.Late(name=label, at=caller(), parent=self._node))
        return Stream(self._builder, node, self._key, self._left._value)


def _same(a: Serde[Any] | None, b: Serde[Any] | None) -> bool:
    return (None if a is None else a.name) == (None if b is None else b.name)


def _partitioner(function: Callable[..., int] | None) -> Any:
    return None if function is None else Function(function, ("key", "value", "partitions"), "partitioner")
