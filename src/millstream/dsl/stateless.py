"""The stateless operators of streams that filter or transform records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.dsl.internals import declared_serde
from millstream.dsl.routing import RoutingOperators
from millstream.dsl.signatures import OfKeyValueAndHeaders, OfValueAndHeaders
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.plan import stateless as plan

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


@suggesting_methods
class StatelessOperators(RoutingOperators[K, V]):
    """The stateless operators of a `Stream` that filter or transform records."""

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
