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
TI = TypeVar("TI")  # tables of numbers, of floats and of lists
TF = TypeVar("TF")
TL = TypeVar("TL")
Selector = Callable[..., Any]


@suggesting_methods
class ReadyAggregations(DslObject[RecordGrouping[Any]], Generic[K, V, T, TI, TF, TL]):
    """Ready aggregations of grouped and windowed streams. Values that are None are skipped.

    ``of`` picks what is aggregated: a function of the value, or of key and value, or an expression; without it, the
    value itself.
    """

    def sum(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The sum.

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
        """The least value."""
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
        """The greatest value."""
        table: T = add_call(self._internals, aggregates.max_(of), value, store, name)
        return table

    def avg(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TF:
        """The average. The store keeps sum and count; the table has their quotient."""
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
        """The k greatest values, greatest first; of equal values the earlier one comes first.

        Args:
            k: How many.
            of: What is aggregated.
            by: What they are compared by; without it, they themselves.
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
        """All values in a list, in the order in which the records were processed.

        Args:
            of: What is collected.
            limit: Keep only this many values, the first ones.
            distinct: Keep equal values once.
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
        """The number of different values. It is exact: the store keeps each of them."""
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
        """The value of the record that was processed first."""
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
        """The value of the record that was processed last."""
        table: T = add_call(self._internals, aggregates.last(of), value, store, name)
        return table


@suggesting_methods
class ReadyTableAggregations(DslObject[TableGrouping], Generic[K, V]):
    """Ready aggregations of the rows of a table, which follow every change of a row. None is skipped.

    ``of`` picks what is aggregated from the row's value; without it, the value itself.
    """

    def sum(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """The sum over the rows of each group."""
        table: Table[K, Any] = add_call(self._internals, aggregates.sum_(of), value, store, name)
        return table

    def avg(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, float]:
        """The average over the rows of each group; None of a group that has become empty.

        The store keeps sum and count; the table has their quotient.
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
        """The values of the rows of each group, in a list."""
        table: Table[K, list[Any]] = add_call(self._internals, aggregates.collect(of), None, store, name)
        return table
