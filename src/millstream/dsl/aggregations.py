"""Ready aggregations: one function of the catalogue in `millstream.expr.aggregates` each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.dsl.catalogue import add_call
from millstream.dsl.grouping import RecordGrouping, TableGrouping
from millstream.dsl.internals import DslObject
from millstream.dsl.suggesting import suggesting_methods
from millstream.expr import aggregates

if TYPE_CHECKING:
    from millstream.dsl.options import Materialized
    from millstream.dsl.table import Table
    from millstream.expr import Expr

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
TI = TypeVar("TI")  # tables of integers, floats and lists
TF = TypeVar("TF")
TL = TypeVar("TL")
Selector = Callable[..., Any]


@suggesting_methods
class ReadyAggregations(DslObject[RecordGrouping[Any]], Generic[K, V, T, TI, TF, TL]):
    """Ready aggregations of grouped and windowed streams, which skip None.

    ``of`` returns the aggregated value: a function of the value or of key and value, or an expression. Default: the
    value of the record.
    """

    def sum(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """Sums the values of each group.

        >>> from millstream import App, TestDriver, col
        >>> app = App("revenue")
        >>> app.stream("orders").group_by(col("shop")).sum(col("amount"), store="revenue")
        Table(orders-sum)
        >>> with TestDriver(app) as driver:
        ...     driver.input("orders").pipe({"shop": "a", "amount": 3})
        ...     driver.input("orders").pipe({"shop": "a", "amount": 4})
        ...     driver.store("revenue").get("a")
        7
        """
        table: T = add_call(self._internals, aggregates.sum_(of), value, store, name)
        return table

    def min(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """Computes the least value of each group."""
        table: T = add_call(self._internals, aggregates.min_(of), value, store, name)
        return table

    def max(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """Computes the greatest value of each group."""
        table: T = add_call(self._internals, aggregates.max_(of), value, store, name)
        return table

    def avg(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TF:
        """Averages the values of each group. The store contains sum and count, the table their quotient."""
        table: TF = add_call(self._internals, aggregates.avg(of), None, store, name)
        return table

    def top_k(
        self,
        k: int,
        of: Selector | Expr | None = None,
        *,
        by: Callable[[Any], Any] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TL:
        """Lists the k greatest values of each group, greatest first. Of equal values, the earlier is first.

        Args:
            k: Number of values.
            of: Returns the aggregated value.
            by: Returns the value to compare by. Default: the aggregated value.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        table: TL = add_call(self._internals, aggregates.top_k(k, of, by=by), None, store, name)
        return table

    def collect(
        self,
        of: Selector | Expr | None = None,
        *,
        limit: int | None = None,
        distinct: bool = False,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TL:
        """Collects the values of each group into a list, in processing order.

        Args:
            of: Returns the collected value.
            limit: Collect only the first values, up to this number.
            distinct: Collect equal values once.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        table: TL = add_call(self._internals, aggregates.collect(of, limit=limit, distinct=distinct), None, store, name)
        return table

    def count_distinct(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TI:
        """Counts the distinct values of each group exactly: the store contains all of them."""
        table: TI = add_call(self._internals, aggregates.count_distinct(of), None, store, name)
        return table

    def first(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """Selects the first value of each group, in processing order."""
        table: T = add_call(self._internals, aggregates.first(of), value, store, name)
        return table

    def last(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """Selects the last value of each group, in processing order."""
        table: T = add_call(self._internals, aggregates.last(of), value, store, name)
        return table


@suggesting_methods
class ReadyTableAggregations(DslObject[TableGrouping], Generic[K, V]):
    """Ready aggregations of the rows of a table, which are updated by each change of a row and skip None.

    ``of`` returns the aggregated value, given the value of the row. Default: the value of the row.
    """

    def sum(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Sums the rows of each group."""
        table: Table[K, Any] = add_call(self._internals, aggregates.sum_(of), value, store, name)
        return table

    def avg(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, float]:
        """Averages the rows of each group; None for a group that has become empty.

        The store contains sum and count, the table their quotient.
        """
        table: Table[K, float] = add_call(self._internals, aggregates.avg(of), None, store, name)
        return table

    def collect(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, list[Any]]:
        """Collects the values of the rows of each group into a list."""
        table: Table[K, list[Any]] = add_call(self._internals, aggregates.collect(of), None, store, name)
        return table
