"""The grouping behind windowed streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from millstream.core.callsite import caller
from millstream.core.durations import END_OF_TIME
from millstream.dsl import table as tables
from millstream.dsl.grouping import Grouping, NewAggregate, RecordGrouping
from millstream.dsl.internals import NodeOutput
from millstream.dsl.stores import windowed
from millstream.errors import TopologyError
from millstream.plan.aggregates import WindowAggregate
from millstream.plan.node import Node
from millstream.plan.windows import SessionWindow, SlidingWindow, UnlimitedWindow, Window
from millstream.serde import Serde, session_windowed, time_windowed

if TYPE_CHECKING:
    from millstream.dsl.table import WindowedTable
    from millstream.state.spec import StoreSpec

Emit = Literal["update", "close"]


class WindowedGrouping(RecordGrouping["WindowedTable[Any, Any]"]):
    """The records of a grouping by key and window."""

    aggregate_options = (*RecordGrouping.aggregate_options, "merger")

    def __init__(self, grouping: Grouping[Any], window: Window, emit: Emit) -> None:
        super().__init__(grouping.output, grouping.name)
        self._grouping = grouping
        self.window: Window = check_window(window, emit)
        self._emit = emit

    def partitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Returns the output, repartitioned as that of the grouping without windows."""
        return self._grouping.partitioned(topic, stem)

    def node(self, new: NewAggregate) -> WindowAggregate:
        """Returns the node of an aggregation."""
        on_close = self._emit == "close"
        key = new.parent.key_serde
        return WindowAggregate(
            name=new.label,
            at=caller(),
            parent=new.parent.node,
            aggregation=new.aggregation,
            window=self.window,
            store=windowed(new.options, new.store, key, new.value, self.window, emit_on_close=on_close),
            emit_on_close=on_close,
            shared=new.shared,
        )

    def table(self, node: Node, store: StoreSpec, aggregates: tuple[NodeOutput, ...]) -> WindowedTable[Any, Any]:
        """Returns the table of an aggregation."""
        key = _windowed_key(store.key, self.window)
        return tables.WindowedTable(NodeOutput(self.builder, node, key, store.value), aggregates)


def check_window(window: Window, emit: Emit) -> Window:
    """Returns the window. Refuses objects that are no windows, and windows that never emit."""
    if not hasattr(window, "close_delay"):
        raise TopologyError(
            f"windowed_by: expected windows, got {window!r}",
            hint='use tumbling("1m"), hopping("10s", "5s"), sliding("10s"), session("30s") or unlimited()',
        )
    if emit not in {"update", "close"}:
        raise TopologyError(
            f"windowed_by: emit={emit!r} is neither 'update' nor 'close'",
            hint="'update' emits every update of a window, 'close' each window once",
        )
    if emit == "close" and isinstance(window, UnlimitedWindow):
        raise TopologyError(
            "windowed_by: an unlimited window never closes, so emit='close' would emit nothing",
            hint="leave emit out, or use windows that end",
        )
    return window


def _windowed_key(key: Serde[Any], window: Window) -> Serde[Any]:
    """Returns the serde of the keys of a windowed table."""
    if isinstance(window, SessionWindow):
        return session_windowed(key)
    if isinstance(window, UnlimitedWindow):
        return time_windowed(key, END_OF_TIME)
    return time_windowed(key, window.difference if isinstance(window, SlidingWindow) else window.size)
