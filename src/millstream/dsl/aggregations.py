"""Ready aggregations: sums, extremes, averages, lists and the like, each made of `aggregate` and `map_values`."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan.aggregates import Aggregation
from millstream.plan.windows import SessionWindow
from millstream.serde import DOUBLE, JSON, LONG, serde_for

if TYPE_CHECKING:
    from millstream.dsl.options import Materialized
    from millstream.dsl.table import Table
    from millstream.expr import Expr
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
Selector = Callable[..., Any]


@suggesting_methods
class ReadyAggregations(Generic[K, V, T]):
    """Ready aggregations of grouped and windowed streams. Values that are None are passed over.

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
        pick = self._pick(of)
        return self._ready(
            "sum",
            lambda: 0,
            lambda key, item, agg: agg if (x := pick(key, item)) is None else agg + x,
            lambda left, right: left + right,
            self._picked_serde(of, value),
            store,
            name,
        )

    def min(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The least value."""
        return self._extreme("min", min, of, value, store, name)

    def max(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The greatest value."""
        return self._extreme("max", max, of, value, store, name)

    def avg(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The average. The store keeps sum and count; the table has their quotient."""
        pick = self._pick(of)
        return self._ready(
            "avg",
            lambda: [0, 0],
            lambda key, item, agg: agg if (x := pick(key, item)) is None else [agg[0] + x, agg[1] + 1],
            lambda left, right: [left[0] + right[0], left[1] + right[1]],
            JSON,
            store,
            name,
            finish=lambda table: table.map_values(_quotient, value=DOUBLE),
        )

    def top_k(
        self,
        k: int,
        of: Selector | Expr | None = None,
        *,
        by: Callable[[Any], Any] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The k greatest values, greatest first; of equal ones the earlier.

        Args:
            k: How many.
            of: What is aggregated.
            by: What they are compared by; without it, they themselves.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        if k < 1:
            raise TopologyError(f"top_k: k must be at least 1, got {k}")
        pick = self._pick(of)

        def best(values: list[Any]) -> list[Any]:
            return heapq.nlargest(k, values, key=by)

        return self._ready(
            "top-k",
            list,
            lambda key, item, agg: agg if (x := pick(key, item)) is None else best([*agg, x]),
            lambda left, right: best([*left, *right]),
            JSON,
            store,
            name,
        )

    def collect(
        self,
        of: Selector | Expr | None = None,
        *,
        limit: int | None = None,
        distinct: bool = False,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """All values in a list, in the order in which they came.

        Args:
            of: What is collected.
            limit: Keep only the first so many.
            distinct: Keep equal values once.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        return self._collected(of, limit, store, name, distinct=distinct)

    def _collected(
        self,
        of: Selector | Expr | None,
        limit: int | None,
        store: str | Materialized | None,
        name: str | None,
        *,
        distinct: bool,
        finish: Callable[[Any], Any] = lambda table: table,
    ) -> T:
        pick = self._pick(of)

        def extend(values: list[Any], more: list[Any]) -> list[Any]:
            for item in more:
                if (limit is None or len(values) < limit) and not (distinct and item in values):
                    values = [*values, item]
            return values

        return self._ready(
            "collect",
            list,
            lambda key, item, agg: agg if (x := pick(key, item)) is None else extend(agg, [x]),
            extend,
            JSON,
            store,
            name,
            finish=finish,
        )

    def count_distinct(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """How many different values there are. Exact: the store keeps each of them."""
        return self._collected(
            of, None, store, name, distinct=True, finish=lambda table: table.map_values(len, value=LONG)
        )

    def first(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The value that came first."""
        return self._extreme("first", lambda old, _new: old, of, value, store, name)

    def last(
        self,
        of: Selector | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> T:
        """The value that came last."""
        return self._extreme("last", lambda _old, new: new, of, value, store, name)

    # ----- inside ----------------------------------------------------------------------------------------------

    def _extreme(
        self, kind: str, choose: Callable[[Any, Any], Any], of: Any, value: Any, store: Any, name: str | None
    ) -> T:
        pick = self._pick(of)

        def merge(left: Any, right: Any) -> Any:
            return right if left is None else left if right is None else choose(left, right)

        return self._ready(
            kind,
            lambda: None,
            lambda key, item, agg: merge(agg, pick(key, item)),
            merge,
            self._picked_serde(of, value),
            store,
            name,
        )

    def _pick(self, of: Any) -> Callable[[Any, Any], Any]:
        if of is None:
            return lambda _key, value: value
        full: Callable[[Any, Any], Any] = self._function(of, ("key", "value"), "of").full()
        return full

    def _picked_serde(self, of: Any, declared: Any) -> Serde[Any]:
        if declared is not None:
            return serde_for(declared, "value")
        stream = self._stream  # type: ignore[attr-defined]
        if of is None:
            return stream._value or JSON
        function = self._function(of, ("key", "value"), "of")
        found = stream._builder.result_serde(None, function, "value", key=stream._key, value=stream._value)
        return found or JSON

    def _ready(
        self,
        kind: str,
        init: Any,
        add: Any,
        merge: Any,
        serde: Serde[Any],
        store: Any,
        name: str | None,
        *,
        finish: Callable[[Any], Any] = lambda table: table,
    ) -> T:
        session = isinstance(getattr(self, "_window", None), SessionWindow)
        aggregation: Aggregation = self._aggregate(init, add, merge if session else None)  # type: ignore[attr-defined]
        table: T = finish(self._add(kind, aggregation, serde, store, name))  # type: ignore[attr-defined]
        return table

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Any:
        raise NotImplementedError


@suggesting_methods
class ReadyTableAggregations(Generic[K, V]):
    """Ready aggregations of the rows of a table, which follow every change of a row. None is passed over.

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
        pick = self._pick(of)
        serde = serde_for(value, "value") if value is not None else JSON
        return self._ready(
            "sum",
            lambda: 0,
            lambda item, agg: agg if (x := pick(item)) is None else agg + x,
            lambda item, agg: agg if (x := pick(item)) is None else agg - x,
            serde,
            store,
            name,
        )

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
        pick = self._pick(of)
        return self._ready(
            "avg",
            lambda: [0, 0],
            lambda item, agg: agg if (x := pick(item)) is None else [agg[0] + x, agg[1] + 1],
            lambda item, agg: agg if (x := pick(item)) is None else [agg[0] - x, agg[1] - 1],
            JSON,
            store,
            name,
        ).map_values(_quotient, value=DOUBLE)

    def collect(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, list[Any]]:
        """The values of the rows of each group, in a list."""
        pick = self._pick(of)

        def without(item: V, agg: list[Any]) -> list[Any]:
            gone = pick(item)
            index = agg.index(gone) if gone in agg else len(agg)
            return agg[:index] + agg[index + 1 :]

        def extended(item: V, agg: list[Any]) -> list[Any]:
            more = pick(item)
            return agg if more is None else [*agg, more]

        return self._ready("collect", list, extended, without, JSON, store, name)

    def _ready(
        self, kind: str, init: Any, add: Any, subtract: Any, serde: Serde[Any], store: Any, name: str | None
    ) -> Table[Any, Any]:
        roles = ("key", "value", "agg")
        aggregation = Aggregation(
            "aggregate",
            init=self._function(init, (), "initializer"),
            add=self._function(add, roles, "adder"),
            subtract=self._function(subtract, roles, "subtractor"),
        )
        table: Table[Any, Any] = self._add(kind, aggregation, serde, store, name)  # type: ignore[attr-defined]
        return table

    def _pick(self, of: Callable[[V], Any] | Expr | None) -> Callable[[Any], Any]:
        if of is None:
            return _itself
        pick: Callable[[Any], Any] = self._function(of, ("value",), "of").bare()
        return pick

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Any:
        raise NotImplementedError


def _itself(value: Any) -> Any:
    return value


def _quotient(pair: list[Any]) -> Any:
    total, count = pair
    return total / count if count else None
