"""The stateless operators of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.dsl import stream as streams
from millstream.dsl.internals import Dataset, declared_serde, internals_of
from millstream.dsl.signatures import OfKeyValueAndHeaders, OfValueAndHeaders
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.plan import stateless as plan
from millstream.plan.builder import shorten
from millstream.text.escaping import printable

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream
    from millstream.plan.node import Node
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


@suggesting_methods
class StatelessOperators(Dataset[K, V]):
    """The stateless operators of a `Stream`."""

    @overload
    def filter(self, predicate: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: OfValueAndHeaders[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: Expr, *, name: str | None = None) -> Stream[K, V]: ...
    def filter(self, predicate: Any, *, name: str | None = None) -> Stream[K, V]:
        """Passes on the records for which the predicate is true. Stateless.

        The predicate is also called for records with a null key or value.

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

    @overload
    def filter_not(self, predicate: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: OfValueAndHeaders[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: Expr, *, name: str | None = None) -> Stream[K, V]: ...
    def filter_not(self, predicate: Any, *, name: str | None = None) -> Stream[K, V]:
        """Passes on the records for which the predicate is false. Stateless."""
        return self._filter("filter-not", predicate, name, negate=True)

    def _filter(self, kind: str, predicate: Any, name: str | None, *, negate: bool) -> Stream[K, V]:
        function = self._internals.record_function(predicate, kind.replace("-", "_"))
        return self._then(self._internals.add(plan.Filter, kind, name, predicate=function, negate=negate))

    @overload
    def select_key(self, function: Callable[[V], K2], *, key: Any = None, name: str | None = None) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: Callable[[K, V], K2], *, key: Any = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: OfValueAndHeaders[V, K2], *, key: Any = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: OfKeyValueAndHeaders[K, V, K2], *, key: Any = None, name: str | None = None
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(self, function: Expr, *, key: Any = None, name: str | None = None) -> Stream[Any, V]: ...
    def select_key(self, function: Any, *, key: Any = None, name: str | None = None) -> Stream[Any, V]:
        """Sets a new key for each record. Stateless.

        A later grouping, table or join repartitions the records, so that records of one key are in one partition.

        Args:
            function: Returns the new key, given the value or key and value.
            key: Serde of the new keys: a type or a `Serde`.
            name: Name of the operator.
        """
        wrapped = self._internals.record_function(function, "select_key")
        node = self._internals.add(plan.SelectKey, "select-key", name, function=wrapped)
        return self._then(node, key=self._internals.result_serde(key, wrapped, "key"), rekeyed=True)

    @overload
    def map(
        self, function: Callable[[V], tuple[K2, V2]], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[K2, V2]: ...
    @overload
    def map(
        self, function: Callable[[K, V], tuple[K2, V2]], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[K2, V2]: ...
    @overload
    def map(
        self,
        function: OfKeyValueAndHeaders[K, V, tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def map(
        self, function: Expr, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[Any, Any]: ...
    def map(self, function: Any, *, key: Any = None, value: Any = None, name: str | None = None) -> Stream[Any, Any]:
        """Replaces each record by the pair of key and value that the function returns. Stateless.

        A later grouping, table or join repartitions the records.
        """
        wrapped = self._internals.record_function(function, "map")
        node = self._internals.add(plan.Map, "map", name, function=wrapped)
        return self._then(node, key=declared_serde(key, "key"), value=declared_serde(value, "value"), rekeyed=True)

    @overload
    def map_values(
        self, function: Callable[[V], V2], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: Callable[[K, V], V2], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: OfValueAndHeaders[V, V2], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: OfKeyValueAndHeaders[K, V, V2], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(self, function: Expr, *, value: Any = None, name: str | None = None) -> Stream[K, Any]: ...
    def map_values(self, function: Any, *, value: Any = None, name: str | None = None) -> Stream[K, Any]:
        """Sets a new value for each record. Stateless; the key is unchanged, so no repartition follows.

        >>> from millstream import App, TestDriver, col
        >>> app = App("mapping")
        >>> app.stream("words", value=str).map_values(str.upper, value=str).to("loud")
        >>> with TestDriver(app) as driver:
        ...     driver.input("words").pipe("hello")
        ...     driver.output("loud").read_values()
        ['HELLO']
        """
        wrapped = self._internals.record_function(function, "map_values")
        node = self._internals.add(plan.MapValues, "map-values", name, function=wrapped)
        return self._then(node, value=self._internals.result_serde(value, wrapped, "value"))

    @overload
    def with_timestamp(self, function: Callable[[V], int], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def with_timestamp(self, function: Callable[[K, V], int], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def with_timestamp(self, function: OfValueAndHeaders[V, int], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def with_timestamp(self, function: OfKeyValueAndHeaders[K, V, int], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def with_timestamp(self, function: Expr, *, name: str | None = None) -> Stream[K, V]: ...
    def with_timestamp(self, function: Any, *, name: str | None = None) -> Stream[K, V]:
        """Sets a new timestamp for each record. Stateless; the key is unchanged, so no repartition follows.

        Downstream windows, joins, tables and topics use the new timestamp: a record may become late, or no longer be.
        Stream-time punctuators of processors in the same sub-topology use the timestamps of the input. The function
        is also called for records with a null key or value. A result that is not an int from 0 to
        2**63 - 1 is an error of the record, which goes to ``processing.exception.handler``.

        To set the timestamps of all records of a topic, use ``timestamp=…`` of `App.stream`.

        Args:
            function: Returns milliseconds since the epoch, given the value or key and value.
            name: Name of the operator.

        >>> from millstream import App, TestDriver, col, tumbling
        >>> app = App("event-time")
        >>> clicks = app.stream("uploads").flat_map_values(lambda upload: upload["clicks"]).with_timestamp(col("at"))
        >>> clicks.group_by_key().windowed_by(tumbling("1m")).count().to_stream().to("per-minute")
        >>> with TestDriver(app) as driver:
        ...     upload = {"clicks": [{"at": 5_000}, {"at": 7_000}, {"at": 65_000}]}
        ...     driver.input("uploads").pipe("ann", upload, timestamp=90_000)
        ...     [(record.key.start, record.value) for record in driver.output("per-minute").read_all()]
        [(0, 1), (0, 2), (60000, 1)]
        """
        wrapped = self._internals.record_function(function, "with_timestamp")
        result = self._internals.result_serde(None, wrapped, "value")
        if result is not None and result.python_type in {str, float, bool, bytes}:
            raise TopologyError(
                f"with_timestamp: {wrapped.location} returns {result.python_type.__name__}, which is not a timestamp",
                hint="return an int: milliseconds since the epoch",
            )
        return self._then(self._internals.add(plan.WithTimestamp, "with-timestamp", name, function=wrapped))

    @overload
    def flat_map(
        self,
        function: Callable[[V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        function: OfKeyValueAndHeaders[K, V, Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self, function: Expr, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[Any, Any]: ...
    def flat_map(
        self, function: Any, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream[Any, Any]:
        """Replaces each record by zero or more records: the function returns (key, value) pairs. Stateless.

        A later grouping, table or join repartitions the records.
        """
        wrapped = self._internals.record_function(function, "flat_map")
        node = self._internals.add(plan.FlatMap, "flat-map", name, function=wrapped)
        return self._then(node, key=declared_serde(key, "key"), value=declared_serde(value, "value"), rekeyed=True)

    @overload
    def flat_map_values(
        self, function: Callable[[V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self, function: Callable[[K, V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self, function: OfValueAndHeaders[V, Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self, function: OfKeyValueAndHeaders[K, V, Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(self, function: Expr, *, value: Any = None, name: str | None = None) -> Stream[K, Any]: ...
    def flat_map_values(self, function: Any, *, value: Any = None, name: str | None = None) -> Stream[K, Any]:
        """Replaces each record by zero or more records with the same key: the function returns values. Stateless."""
        wrapped = self._internals.record_function(function, "flat_map_values")
        node = self._internals.add(plan.FlatMapValues, "flat-map-values", name, function=wrapped)
        return self._then(node, value=declared_serde(value, "value"))

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: OfValueAndHeaders[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    def peek(self, action: Any, *, name: str | None = None) -> Stream[K, V]:
        """Calls a function for each record, for its side effect, and passes the record on. Stateless.

        The function is called at least once for each record; after a failure, records are replayed.
        """
        wrapped = self._internals.record_function(action, "peek")
        return self._then(self._internals.add(plan.Peek, "peek", name, function=wrapped))

    @overload
    def foreach(self, action: Callable[[V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: OfValueAndHeaders[V, object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> None: ...
    def foreach(self, action: Any, *, name: str | None = None) -> None:
        """Calls a function for each record, for its side effect, at least once. Stateless; ends the stream."""
        wrapped = self._internals.record_function(action, "foreach")
        self._internals.add(plan.Foreach, "foreach", name, function=wrapped)

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record as ``[label]: key, value``. Stateless; ends the stream.

        Control characters in keys and values are escaped. Default of the label: the name of the input operator.
        """
        prefix = label or self._internals.node.name

        def show(key: K, value: V) -> None:
            print(f"[{prefix}]: {printable(str(key))}, {printable(str(value))}")  # noqa: T201

        self._internals.add(plan.Foreach, "print", name, function=self._internals.record_function(show, "print"))

    def split(
        self,
        branches: Mapping[str, Callable[..., object] | Expr],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """Routes each record to the first branch whose predicate is true. Stateless.

        Args:
            branches: The predicates by the names of their branches, in the order of evaluation.
            default: Name of the branch for records that match no predicate. Without it, these records are dropped.
            name: Name of the operator.

        Returns:
            The streams by the names of their branches, the default branch included.

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
            raise TopologyError(
                f"split: the default branch {default!r} has the name of another branch", hint="choose another name"
            )
        for branch in names:
            check_name(branch, "branch")
        internals, builder = self._internals, self._internals.builder
        predicates = tuple(internals.record_function(p, f"split, branch {n!r}") for n, p in branches.items())
        node = internals.add(plan.Branch, "split", name, predicates=predicates, default=default is not None)
        outputs = {}
        for index, branch in enumerate(names):
            label = builder.name(None, branch, node, base=node.name)
            output = plan.BranchOutput(name=label, at=caller(), parent=node, index=index)
            outputs[branch] = self._then(builder.add(output, lineage=f"{builder.lineage(node)}-{branch}"))
        return outputs

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """Merges this stream with others. Stateless; records of different streams have no defined order."""
        for other in others:
            if not isinstance(other, streams.Stream):
                raise TopologyError(f"merge: expected streams, got {other!r}", hint="convert a table with to_stream()")
        inputs = [self._internals, *(internals_of(other) for other in others)]
        parents = tuple(dict.fromkeys(output.node for output in inputs))
        builder = self._internals.builder
        node = plan.Merge(name=builder.name(name, "merge", *parents), at=caller(), inputs=parents)
        builder.add(node, lineage=name or shorten(builder.lineage(*parents)))
        return self._then(
            node,
            key=_common(output.key for output in inputs),
            value=_common(output.value for output in inputs),
            rekeyed=any(output.rekeyed for output in inputs),
        )

    def _then(self, node: Node, **changes: Any) -> Stream[Any, Any]:
        """Returns the stream behind a node, with the serdes of this one except for ``changes``."""
        return streams.Stream(self._internals.then(node, **changes))


def _common(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    """Returns the serde that all inputs have, None if they differ."""
    first, *others = serdes
    return first if all((s and s.name) == (first and first.name) for s in others) else None
