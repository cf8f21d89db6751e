"""Aggregations over several grouped streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from millstream.dsl import grouped as groupings
from millstream.dsl.cogrouping import Cogrouping
from millstream.dsl.internals import DslObject, internals_of
from millstream.dsl.options import Materialized
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.plan.windows import Window

if TYPE_CHECKING:
    from millstream.core.records import Windowed
    from millstream.dsl.grouped import GroupedStream
    from millstream.dsl.table import Table, WindowedTable

K = TypeVar("K")
A = TypeVar("A")
VO = TypeVar("VO")


@suggesting_methods
class CogroupedStream(DslObject[Cogrouping], Generic[K, A]):
    """An aggregation of several grouped streams into one table. Each stream has its own aggregator."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(node.name for node in self._internals.nodes)})"

    def cogroup(
        self, grouped: GroupedStream[K, VO], aggregator: Callable[[K, VO, A], A] | Callable[[VO, A], A]
    ) -> CogroupedStream[K, A]:
        """Adds a grouped stream and its aggregator."""
        if not isinstance(grouped, groupings.GroupedStream):
            raise TopologyError(
                f"cogroup: expected a grouped stream, got {grouped!r}",
                hint="group the stream first: stream.group_by_key()",
            )
        return type(self)(self._internals.with_part(internals_of(grouped), aggregator))

    def windowed_by(self, window: Window) -> WindowedCogroupedStream[K, A]:
        """Groups the records also by time window."""
        return WindowedCogroupedStream(self._internals.windowed_by(window))

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A] | Callable[[A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> Table[Any, A]:
        """Aggregates the streams into a table. Repartitions the streams whose key was changed.

        Records are dropped (and counted) as in `GroupedStream.aggregate` and `WindowedStream.aggregate`.

        Args:
            initializer: Returns the initial aggregate of a row.
            merger: For session windows: returns the aggregate of two sessions that a record has merged into one.
            value: Serde of the aggregate.
            store: Name of the store, or `Materialized`.
            name: Name of the operator.
        """
        return self._internals.aggregate(initializer, merger, value, store, name)


@suggesting_methods
class WindowedCogroupedStream(CogroupedStream[K, A]):
    """A windowed aggregation of several grouped streams, returned by `CogroupedStream.windowed_by`."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A] | Callable[[A, A], A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> WindowedTable[Windowed[K], A]:
        """Aggregates the streams into a table; see `CogroupedStream.aggregate`."""
        table = super().aggregate(initializer, merger, value=value, store=store, name=name)
        return cast("WindowedTable[Windowed[K], A]", table)
