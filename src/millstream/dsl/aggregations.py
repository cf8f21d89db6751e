"""Aggregations by the functions of the catalogue in `millstream.expr.aggregates`: one, or several in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError, suggestion
from millstream.expr import aggregates
from millstream.expr.aggregates import AggregateCall, lookup_aggregate
from millstream.plan.aggregates import Aggregation, BoundAggregate
from millstream.serde import JSON, serde_for

if TYPE_CHECKING:
    from millstream.dsl.options import Materialized
    from millstream.dsl.table import Table
    from millstream.expr import Expr
    from millstream.plan.builder import Builder
    from millstream.plan.functions import Function
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
TI = TypeVar("TI")  # tables of numbers, of floats and of lists
TF = TypeVar("TF")
TL = TypeVar("TL")
Selector = Callable[..., Any]
_PICK = ("key", "value")


class Finish:
    """Computes the results of aggregate functions from their states.

    Args:
        functions: The aggregate functions.
        fields: The names of their results; empty if there is but one function, whose result stands alone.
        into: The type that a record of several results is converted to; None leaves a dict.
    """

    def __init__(self, functions: tuple[BoundAggregate, ...], fields: tuple[str, ...], into: Any = None) -> None:
        self._made_of = functions, fields, into
        finishers = [function.accumulator().finish for function in functions]
        self._single = None if fields else finishers[0]
        self._finishers = tuple((field, f) for field, f in zip(fields, finishers, strict=False) if f is not None)
        self._into = into

    def __call__(self, state: Any) -> Any:
        """Returns the result."""
        if self._single is not None:
            return self._single(state)
        if self._finishers:
            state = {**state, **{field: finish(state[field]) for field, finish in self._finishers}}
        if self._into is None:
            return state
        import msgspec  # noqa: PLC0415  (takes 50 ms)

        return msgspec.convert(state, self._into)

    def __reduce__(self) -> tuple[Any, ...]:
        return Finish, self._made_of

    @property
    def needed(self) -> bool:
        """Whether a result differs from its state."""
        return self._single is not None or bool(self._finishers) or self._into is not None


class CatalogueAggregations:
    """How groupings of streams and of tables add aggregate functions to the topology."""

    _undoes = False
    """Whether the operator removes values, as that of a table does."""

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Function:
        raise NotImplementedError

    def _add(self, kind: str, aggregation: Aggregation, value: Serde[Any] | None, store: Any, name: str | None) -> Any:
        raise NotImplementedError

    def _parts(self) -> tuple[Builder, Serde[Any] | None, Serde[Any] | None]:
        """The topology, and the serdes of key and value."""
        raise NotImplementedError

    def _one(self, call: AggregateCall, value: Any, store: Any, name: str | None) -> Any:
        """Adds one aggregate function; its result is the value of the table."""
        function = self._bind(call)
        aggregation = Aggregation("functions", functions=(function,))
        finish = Finish((function,), ())
        state = self._state(function, value)
        table = self._add(call.function.replace("_", "-"), aggregation, state, store, name)
        if not finish.needed:
            return table
        return table.map_values(finish, value=serde_for(lookup_aggregate(call.function).result, "value"))

    def _several(self, calls: Mapping[str, Any], value: Any, store: Any, name: str | None) -> Any:
        """Adds several aggregate functions; the value of the table is a record of their results."""
        fields = tuple(calls)
        functions = tuple(self._bind(call) for call in calls.values())
        aggregation = Aggregation("functions", functions=functions, fields=fields)
        serde = None if value is None else serde_for(value, "value")
        finish = Finish(functions, fields, None if serde is None or serde.python_type is object else serde.python_type)
        table = self._add("aggregate", aggregation, JSON, store, name)
        return table.map_values(finish, value=serde or JSON) if finish.needed else table

    def _bind(self, call: AggregateCall) -> BoundAggregate:
        options = tuple(
            (name, self._function(value, ("value",), f"{call.function}: {name}") if callable(value) else value)
            for name, value in call.options
        )
        of = None if call.of is None else self._function(call.of, _PICK, "of")
        bound = BoundAggregate(call.function, of, options)
        if self._undoes and bound.accumulator().undo is None:
            raise TopologyError(
                f"{call}: a row of a table may change, and {call.function} cannot take an old value back",
                hint="use count, sum_, avg or collect; or aggregate(initializer, adder, subtractor)",
            )
        return bound

    def _state(self, function: BoundAggregate, declared: Any) -> Serde[Any]:
        """The serde of the state of one function: that of the picked values, if the state is one of their type."""
        if declared is not None:
            return serde_for(declared, "value")
        if lookup_aggregate(function.function).result is not None:
            return JSON
        builder, key, value = self._parts()
        if function.of is None:
            return (None if self._undoes else value) or JSON
        return builder.result_serde(None, function.of, "value", key=key, value=value) or JSON


def check_calls(first: Any, others: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, AggregateCall] | None:
    """Returns the aggregate calls that ``aggregate`` was given, by field; None if it was given functions.

    Args:
        first: The first argument of ``aggregate``: an initializer, or a mapping of calls.
        others: Its other keyword arguments, the calls.
        known: The keyword arguments that are options.
    """
    if first is not None and not isinstance(first, Mapping):
        if others:
            name = next(iter(others))
            raise TopologyError(
                f"aggregate: unknown option {name!r}",
                hint=suggestion(name, known) or f"it takes: {', '.join(sorted(known))}",
            )
        return None
    calls = {**(first or {}), **others}
    for name, call in calls.items():
        if not isinstance(call, AggregateCall):
            raise TopologyError(
                f"aggregate: {name}={call!r} is neither an option nor an aggregate function",
                hint=suggestion(name, known) or "write n=count(), total=sum_(col('amount')), …",
            )
    if not calls:
        raise TopologyError(
            "aggregate: nothing to aggregate",
            hint="pass an initializer and an aggregator, or aggregate functions: n=count(), total=sum_(col('amount'))",
        )
    return calls


@suggesting_methods
class ReadyAggregations(CatalogueAggregations, Generic[K, V, T, TI, TF, TL]):
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
        table: T = self._one(aggregates.sum_(of), value, store, name)
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
        table: T = self._one(aggregates.min_(of), value, store, name)
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
        table: T = self._one(aggregates.max_(of), value, store, name)
        return table

    def avg(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TF:
        """The average. The store keeps sum and count; the table has their quotient."""
        table: TF = self._one(aggregates.avg(of), None, store, name)
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
        table: TL = self._one(aggregates.top_k(k, of, by=by), None, store, name)
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
        table: TL = self._one(aggregates.collect(of, limit=limit, distinct=distinct), None, store, name)
        return table

    def count_distinct(
        self,
        of: Selector | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> TI:
        """The number of different values. It is exact: the store keeps each of them."""
        table: TI = self._one(aggregates.count_distinct(of), None, store, name)
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
        table: T = self._one(aggregates.first(of), value, store, name)
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
        table: T = self._one(aggregates.last(of), value, store, name)
        return table


@suggesting_methods
class ReadyTableAggregations(CatalogueAggregations, Generic[K, V]):
    """Ready aggregations of the rows of a table, which follow every change of a row. None is skipped.

    ``of`` picks what is aggregated from the row's value; without it, the value itself.
    """

    _undoes = True

    def sum(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """The sum over the rows of each group."""
        table: Table[K, Any] = self._one(aggregates.sum_(of), value, store, name)
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
        table: Table[K, float] = self._one(aggregates.avg(of), None, store, name)
        return table

    def collect(
        self,
        of: Callable[[V], Any] | Expr | None = None,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[K, list[Any]]:
        """The values of the rows of each group, in a list."""
        table: Table[K, list[Any]] = self._one(aggregates.collect(of), None, store, name)
        return table
