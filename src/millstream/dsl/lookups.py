"""Look-up joins: records with rows that another system has at the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from millstream.core.durations import Duration, to_ms
from millstream.dsl.internals import JOINER, KEY_VALUE, declared_serde
from millstream.dsl.routing import RoutingOperators
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan import stateless as plan

if TYPE_CHECKING:
    from millstream.connect.lookup import LookupTable, OnLookupError
    from millstream.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")


@suggesting_methods
class LookupOperators(RoutingOperators[K, V]):
    """The look-up join of a `Stream`."""

    def lookup(
        self,
        table: LookupTable,
        joiner: Callable[..., Any] | None = None,
        *,
        on: Any,
        how: Literal["left", "inner"] = "left",
        cache: Duration | None = "1m",
        negative_cache: Duration | None = "10s",
        cache_size: int = 100_000,
        retry_for: Duration = "30s",
        on_error: OnLookupError = "fail",
        value: Any = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Joins each record with a row that another system has at the moment.

        Rows are looked up for many records at once, and cached. Stateless; the key is unchanged. A replay sees the rows
        of its own time, not those of the first run: where results must not depend on that, capture the table as a
        topic, and join with it.

        A record whose look-up key is None has no row.

        Args:
            table: The table, such as `postgres_table`.
            joiner: Returns the value of the result, given value and row, or key, value and row. The row is None if
                there is none. Default: the value, a dict, with the columns of the row that it does not have itself.
            on: Returns the key to look up, given the value, or key and value; or an expression. It only computes.
            how: ``"left"``: records without a row are joined with None. ``"inner"``: they are dropped.
            cache: How long a row is cached; None: not at all.
            negative_cache: How long it is cached that a key has no row; None: not at all.
            cache_size: The greatest number of cached keys of a process.
            retry_for: How long a look-up is tried again while its error may pass.
            on_error: ``"fail"``: then the record fails, and the processing exception handler decides. ``"null"``: it
                has no row.
            value: Serde of the values of the result.
            name: Name of the operator.

        >>> from millstream import App, TestDriver
        >>> from millstream.connect import LookupTable
        >>> class Countries(LookupTable):
        ...     def fetch(self, codes):
        ...         return {code: {"country": "Norway"} for code in codes if code == "NO"}
        >>> app = App("countries")
        >>> app.stream("orders").lookup(Countries(), on=lambda order: order["code"]).to("located")
        >>> with TestDriver(app) as driver:
        ...     driver.input("orders").pipe("o1", {"code": "NO"})
        ...     driver.input("orders").pipe("o2", {"code": "XX"})
        ...     driver.output("located").read_values()
        [{'country': 'Norway', 'code': 'NO'}, {'code': 'XX'}]
        """
        from millstream.connect.lookup import LookupFunction, LookupOptions, LookupTable, extended  # noqa: PLC0415

        if not isinstance(table, LookupTable):
            hint = "pass a LookupTable, such as postgres_table(…); a topic is joined with .join(app.table(…), …)"
            raise TopologyError(f"lookup: {table!r} is not a table for look-ups", hint=hint)
        options = LookupOptions(
            is_inner=_one_of("how", how, ("left", "inner")) == "inner",
            cache=_seconds(cache, "cache"),
            negative_cache=_seconds(negative_cache, "negative_cache"),
            cache_size=cache_size,
            retry_for=_seconds(retry_for, "retry_for"),
            on_error=_one_of("on_error", on_error, ("fail", "null")),
        )
        builder = self._internals.builder
        wanted = builder.function(on, KEY_VALUE, "on", key=self._internals.key, value=self._internals.value)
        join = builder.function(extended if joiner is None else joiner, JOINER, "joiner")
        function = self._internals.record_function(LookupFunction(table, wanted, join, options), "lookup")
        node = self._internals.add(plan.FlatMapValues, "lookup", name, function=function)
        return self._then(node, value=declared_serde(value, "value"))


def _one_of(option: str, value: Any, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise TopologyError(f"lookup: {option} is {value!r}", hint=f"it is one of: {', '.join(allowed)}")
    return value


def _seconds(duration: Duration | None, option: str) -> float:
    return 0.0 if duration is None else to_ms(duration, option) / 1000
