"""Streams: unbounded sequences of records, and their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.dsl import compositions, grouped, table
from millstream.dsl.contracts import ContractOption, contract_on_write
from millstream.dsl.grouping import StreamGrouping
from millstream.dsl.internals import KEY_VALUE, NodeOutput, declared_serde
from millstream.dsl.lookups import LookupOperators
from millstream.dsl.options import Materialized
from millstream.dsl.processor_nodes import add_processor, check_processor
from millstream.dsl.stateless import StatelessOperators
from millstream.dsl.stream_joins import JoinOperators
from millstream.dsl.suggesting import suggesting_methods
from millstream.dsl.to_table import make_table
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.plan import stateless
from millstream.plan.functions import Function
from millstream.plan.joins import StreamTableJoin

if TYPE_CHECKING:
    from millstream.core.durations import Duration
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.processors import FixedKeyProcessor, Processor
    from millstream.dsl.table import Table
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")


@suggesting_methods
class Stream(StatelessOperators[K, V], JoinOperators[K, V], LookupOperators[K, V]):
    """An unbounded sequence of records, each independent of the others.

    `App.stream` and the methods below return streams. No method modifies the stream that it is called on. Functions
    take the value, or key and value, according to their arity. An expression can be passed in place of a function.
    """

    # ----- topics ------------------------------------------------------------------------------------------------

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[..., int] | None = None,
    ) -> Stream[K, V]:
        """Repartitions the stream through an internal topic, even if the key was not changed.

        Records with a null key are dropped (and counted), unless an outer join of streams or a left join follows.

        Args:
            name: Name of the topic, between the application's id and ``-repartition``.
            partitions: Number of partitions of the topic. Default: that of the input.
            key: Serde of the keys in the topic.
            value: Serde of the values in the topic.
            partitioner: Function of key, value and number of partitions that returns the partition.
        """
        if partitions is not None and partitions < 1:
            raise TopologyError(
                f"repartition: partitions must be at least 1, got {partitions}",
                hint="leave it out for as many as the input has",
            )
        if name is not None:
            check_name(name, "repartition topic")
        output = self._internals.declared(key, value)
        builder = output.builder
        node = builder.repartition(
            output.node,
            name if name is not None else builder.topic_name(builder.lineage(output.node)),
            output.key_serde,
            output.value_serde,
            partitions=partitions,
            partitioner=_partitioner(partitioner),
        )
        return Stream(NodeOutput(builder, node, node.key, node.value))

    def to(
        self,
        topic: str | Callable[[K, V], str] | Callable[[V], str] | Expr,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[..., int] | None = None,
        contract: ContractOption | None = None,
        name: str | None = None,
    ) -> None:
        """Writes each record to a topic.

        Args:
            topic: Name of the topic, or a function that returns the name for each record.
            key: Serde of the keys. Default: that of the stream if known, else the application's.
            value: Serde of the values. Default: likewise.
            partitioner: Function of key, value and number of partitions that returns the partition. Default: Kafka's,
                murmur2 of the key.
            contract: The `contract` of the records: conditions that they must meet, and masks of tagged fields.
            name: Name of the operator.
        """
        output = self._internals.declared(key, value)
        builder = output.builder
        target = check_name(topic, "topic") if isinstance(topic, str) else self._internals.record_function(topic, "to")
        base = target if isinstance(target, str) else builder.lineage(output.node)
        label = builder.name(name, "sink", output.node, base=base)
        builder.add(
            stateless.Sink(
                name=label,
                at=caller(),
                parent=output.node,
                topic=target,
                key=output.key_serde,
                value=output.value_serde,
                partitioner=_partitioner(partitioner),
                contract=contract_on_write(output, contract, target if isinstance(target, str) else label),
            )
        )

    # ----- tables and groups -------------------------------------------------------------------------------------

    def to_table(
        self,
        *,
        store: str | Materialized | None = None,
        key: Any = None,
        value: Any = None,
        ttl: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Reads the stream as a table: each record updates the row of its key, and a null value deletes the row.

        Repartitions if the key was changed. Records with a null key are dropped (and counted).

        Args:
            store: Name of the store, or `Materialized`. Default: the table is materialized only if an operator looks
                up its rows.
            key: Serde of the keys.
            value: Serde of the values.
            ttl: A row that was not updated for this long in stream time is deleted.
            name: Name of the operator.
        """
        output = self._internals.declared(key, value)
        return table.Table(make_table(output, store=store, ttl=ttl, name=name))

    def group_by_key(self, *, name: str | None = None, key: Any = None, value: Any = None) -> GroupedStream[K, V]:
        """Groups the records by key, for an aggregation. Repartitions if the key was changed.

        Args:
            name: Name of the repartition topic, which all aggregations of the group then share.
            key: Serde of the keys.
            value: Serde of the values.
        """
        if name is not None:
            check_name(name, "grouping")
        return grouped.GroupedStream(StreamGrouping(self._internals.declared(key, value), name))

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
        """Groups the records by a new key, for an aggregation: `select_key`, then `group_by_key`. Repartitions.

        Args:
            function: Returns the new key, given the value or key and value.
            key: Serde of the new keys.
            value: Serde of the values.
            name: Name of the repartition topic.
        """
        return self.select_key(function, key=key).group_by_key(name=name, value=value)

    # ----- processors --------------------------------------------------------------------------------------------

    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *stores: str,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Processes each record by a custom processor, which can use stores and schedule punctuators.

        Args:
            processor: A `Processor` class, or a function that returns a processor. It is called once for each task.
            *stores: Names of stores that the processor uses, added with `App.add_store`. After a change of key, call
                `repartition` first, because a task holds only the rows of its own partition; without it, a
                `TopologyWarning` is issued.
            key: Serde of the forwarded keys.
            value: Serde of the forwarded values.
            name: Name of the operator.
        """
        check_processor("process", self._internals, processor, stores)
        label = self._internals.builder.name(name, "process", self._internals.node)
        node = add_processor(self._internals, processor, stores, label, keeps_key=False)
        return self._then(node, key=declared_serde(key, "key"), value=declared_serde(value, "value"), rekeyed=True)

    def process_values(
        self,
        processor: Callable[[], FixedKeyProcessor[K, V, V2]],
        *stores: str,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Processes each record by a processor that cannot change the key, so that no repartition follows."""
        check_processor("process_values", self._internals, processor, stores)
        label = self._internals.builder.name(name, "process-values", self._internals.node)
        node = add_processor(self._internals, processor, stores, label, keeps_key=True)
        return self._then(node, value=declared_serde(value, "value"))

    def deduplicate(
        self,
        within: Duration,
        *,
        by: Callable[..., Any] | Expr | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Drops each record that has the same key (and ``by``) as an earlier record with a timestamp near its own.

        Stateful; repartitions if the key was changed. Two timestamps are near if they differ by no more than
        ``within``. Dropped duplicates are counted, and later records are compared with them too, so a steady repetition
        yields a single record. Records with a null key pass.

        Args:
            within: The greatest difference between the timestamps of two duplicates.
            by: Returns a value in which duplicates also agree, given the value or key and value.
            store: Name of the store, which contains keys and timestamps.
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
        return Stream(compositions.deduplicate(self._internals, within, by, store, name))


class JoinedStream(Stream[K, V]):
    """The results of a join of a stream with a stream or a table."""

    def __init__(self, output: NodeOutput, late_value: Serde[Any] | None) -> None:
        super().__init__(output)
        self._late_value = late_value

    def late(self, *, name: str | None = None) -> Stream[K, Any]:
        """Returns the late records of the join as a stream.

        Of a join of streams: records of either side that arrived after their window had closed and found no partner.
        Of a join with a versioned table with a ``grace=…``: records that arrived after the grace period, which were
        joined immediately.
        """
        join = self._internals.node
        if isinstance(join, StreamTableJoin) and join.grace is None:
            raise TopologyError(
                "late: a join with a table has no late records unless it waits for the table",
                hint="pass grace=… to the join and give the table a history, or leave late() out",
            )
        builder = self._internals.builder
        label = builder.name(name, "late", join, base=join.name)
        node = builder.add(stateless.Late(name=label, at=caller(), parent=join))
        return self._then(node, value=self._late_value)


def _partitioner(function: Callable[..., int] | None) -> Any:
    return None if function is None else Function(function, (*KEY_VALUE, "partitions"), "partitioner")
