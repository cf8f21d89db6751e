"""What all groupings share: how an aggregation is made of functions, and how its store is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from millstream.dsl.aggregations import ReadyAggregations
from millstream.dsl.options import Materialized
from millstream.plan.aggregates import Aggregation

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
TI = TypeVar("TI")
TF = TypeVar("TF")
TL = TypeVar("TL")

ADD = ("key", "value", "agg")
REDUCE = ("agg", "value")
MERGE = ("key", "left", "right")


class Groups(ReadyAggregations[K, V, T, TI, TF, TL]):
    """What grouped and windowed streams have in common: how an aggregation is added to the topology."""

    _stream: Stream[K, V]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream._node.name})"

    def _function(self, target: Any, roles: tuple[str, ...], what: str) -> Any:
        key, value = self._stream._key, self._stream._value
        return self._stream._builder.function(target, roles, what, key=key, value=value)

    def _parts(self) -> tuple[Builder, Serde[Any] | None, Serde[Any] | None]:
        return self._stream._builder, self._stream._key, self._stream._value

    def _count(self) -> Aggregation:
        return Aggregation("count")

    def _reduce(self, reducer: Any) -> Aggregation:
        return Aggregation("reduce", add=self._function(reducer, REDUCE, "reducer"))

    def _aggregate(self, initializer: Any, aggregator: Any, merger: Any = None) -> Aggregation:
        return Aggregation(
            "aggregate",
            init=self._function(initializer, (), "initializer"),
            add=self._function(aggregator, ADD, "aggregator"),
            merge=None if merger is None else self._function(merger, MERGE, "merger"),
        )


def store_name(builder: Builder, options: Materialized, name: str | None, stem: str) -> str:
    """The name of an aggregate's store: the user's, or after the operator's if the user named that, or derived."""
    if options.name is not None:
        return options.name
    if name is None:
        builder.check_explicit(stem)
    return f"{stem}-store"
