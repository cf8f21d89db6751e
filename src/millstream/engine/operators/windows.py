"""Aggregates in windows: selects the operator for the kind of window."""

from __future__ import annotations

from millstream.engine.chunks import Bulk
from millstream.engine.compile import Build, Process, in_bulk, operator
from millstream.engine.operators.session_windows import session_windows
from millstream.engine.operators.sliding_windows import sliding_windows
from millstream.engine.operators.time_windows import count_tumbling, time_windows
from millstream.plan.aggregates import WindowAggregate
from millstream.plan.windows import SessionWindow, SlidingWindow


@operator(WindowAggregate)
def window_aggregate(node: WindowAggregate, build: Build) -> Process:
    """Maintains one aggregate for each key and window."""
    if isinstance(node.window, SlidingWindow):
        return sliding_windows(node, build)
    if isinstance(node.window, SessionWindow):
        return session_windows(node, build)
    return time_windows(node, build)


@in_bulk(WindowAggregate)
def window_aggregate_in_bulk(node: WindowAggregate, build: Build) -> Bulk | None:
    """Counts in tumbling windows have a bulk form."""
    return count_tumbling(node, build)
