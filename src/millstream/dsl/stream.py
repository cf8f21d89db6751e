"""Streams: unending sequences of records, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.asynchronous import ASYNC_HINT, async_method, is_async
from millstream.core.callsite import caller, warn_user
from millstream.core.names import check_name
from millstream.dsl import compositions, grouped, table
from millstream.dsl.options import Materialized
from millstream.dsl.stateless import StatelessOperators
from millstream.dsl.stream_joins import JoinOperators
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError, TopologyWarning
from millstream.expr import Expr
from millstream.plan import process as process_nodes, stateless
from millstream.plan.functions import Function, arity, describe_callable
from millstream.plan.joins import StreamTableJoin
from millstream.plan.node import Node

if TYPE_CHECKING:
    from millstream.core.durations import Duration
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.processors import FixedKeyProcessor, Processor
    from millstream.dsl.table import Table
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")
KO = TypeVar("KO")

_KEY_VALUE = ("key", "value")
_CALLED = ("process", "init", "close")
"""The methods of a processor that the engine calls."""


@suggesting_methods
class Stream(StatelessOperators[K, V], JoinOperators[K, V]):
    """A stream of records: every record is a fact of its own.

    Streams are made by `App.stream` and by the methods here, which never change the stream they are called on.
    Functions may take the value, or the key and the value: their arity tells. An expression can stand for a function.
    """

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
            raise TopologyError(
                f"repartition: partitions must be at least 1, got {partitions}",
                hint="leave it out to have as many as the input",
            )
        if name is not None:
            check_name(name, "repartition topic")
        node = self._builder.repartition(
            self._node,
            name if name is not None else self._builder.topic_name(self._builder.lineage(self._node)),
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
        if name is not None:
            check_name(name, "grouping")
        typed = Stream[K, V](
            self._builder,
            self._node,
            self._given(key, "key") or self._key,
            self._given(value, "value") or self._value,
            rekeyed=self._rekeyed,
        )
        return grouped.GroupedStream(typed, name)

    @overload
    def group_by(
        self, function: Callable[[V], K2], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, function: Callable[[K, V], K2], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, function: Expr, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedStream[Any, V]: ...
    def group_by(
        self, function: Any, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedStream[Any, V]:
        """Groups by a new key, for an aggregation: `select_key` and `group_by_key`. Repartitions.

        Args:
            function: Gives the new key, from the value or from key and value.
            key: Serde of the new keys.
            value: Serde of the values.
            name: Name of the repartition topic.
        """
        return self.select_key(function, key=key).group_by_key(name=name, value=value)

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
            *stores: Names of stores that were added with `App.add_store`, which the processor may use. Behind a change
                of key, call `repartition` first: a task has only the rows of its own partition. A `TopologyWarning`
                says so.
            key: Serde of the keys that it forwards.
            value: Serde of the values that it forwards.
            name: Name of the operator.
        """
        self._check_processor("process", processor, stores)
        label = self._builder.name(name, "process", self._node)
        node = self._process(processor, stores, label, keeps_key=False)
        return Stream(self._builder, node, self._given(key, "key"), self._given(value, "value"), rekeyed=True)

    def process_values(
        self,
        processor: Callable[[], FixedKeyProcessor[K, V, V2]],
        *stores: str,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Gives each record to a processor that cannot change the key, so that nothing is repartitioned behind it."""
        self._check_processor("process_values", processor, stores)
        label = self._builder.name(name, "process-values", self._node)
        node = self._process(processor, stores, label, keeps_key=True)
        return Stream(self._builder, node, self._key, self._given(value, "value"), rekeyed=self._rekeyed)

    def _check_processor(self, call: str, supplier: Any, stores: tuple[str, ...]) -> None:
        if not callable(supplier):
            raise TopologyError(
                f"{call}: expected a processor class or a function that makes one, got {supplier!r}",
                hint="pass the class itself, not an instance: every task needs a processor of its own",
            )
        method = async_method(supplier, _CALLED)
        if method is not None or is_async(supplier):
            named = describe_callable(supplier) if method is None else f"{describe_callable(supplier)}: {method}()"
            raise TopologyError(f"{call}: {named} is asynchronous", hint=ASYNC_HINT)
        needed = arity(supplier)
        if needed is not None and needed[0] > 0:
            raise TopologyError(
                f"{call}: {describe_callable(supplier)} takes {needed[0]} argument{'s' if needed[0] > 1 else ''}",
                hint="pass a Processor class, or a function without arguments that makes one; for a function of "
                "the record use map, map_values or foreach",
            )
        for store in stores:
            self._builder.plan().store(store)
        if stores and self._rekeyed:
            warn_user(
                f"{call}: the key of these records may have changed, and {stores[0]!r} is partitioned by key: a record "
                "reads the rows of the task that it happens to be in, which may not be those of its key.\n"
                f"  hint: write .repartition().{call}(…), so that records of a key are where its rows are",
                TopologyWarning,
            )

    def _process(
        self,
        supplier: Any,
        stores: tuple[str, ...],
        label: str,
        *,
        keeps_key: bool,
        function: Function | None = None,
    ) -> Node:
        node = process_nodes.Process(
            name=label,
            at=caller(),
            parent=self._node,
            supplier=supplier,
            uses=tuple(stores),
            keeps_key=keeps_key,
            function=function,
        )
        return self._builder.add(node)

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


class JoinedStream(Stream[K, V]):
    """The results of a join with a stream or a table."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        late_value: Serde[Any] | None,
    ) -> None:
        super().__init__(builder, node, key, value)
        self._late_value = late_value

    def late(self, *, name: str | None = None) -> Stream[K, Any]:
        """The records that came too late to be joined as they should.

        Of a join of streams: records of either side that came when their window had closed and found no partner.
        Of a join with a versioned table that waits (``grace=…``): records that came after the grace period; they were
        joined at once.
        """
        if isinstance(self._node, StreamTableJoin) and self._node.grace is None:
            raise TopologyError(
                "late: a join with a table has no late records unless it waits for the table",
                hint="give the join a grace=… and the table a history, or leave late() out",
            )
        label = self._builder.name(name, "late", self._node, base=self._node.name)
        node = self._builder.add(stateless.Late(name=label, at=caller(), parent=self._node))
        return Stream(self._builder, node, self._key, self._late_value)


def _partitioner(function: Callable[..., int] | None) -> Any:
    return None if function is None else Function(function, ("key", "value", "partitions"), "partitioner")
