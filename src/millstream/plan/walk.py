"""Properties of a node that depend on the nodes above it, and the functions of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.core.frozen import Frozen, fields
from millstream.errors import TopologyError
from millstream.plan.aggregates import WindowAggregate
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.plan.tables import RowOperator
from millstream.state.spec import StoreSpec


def close_delay(node: Node) -> tuple[int, int | None]:
    """Returns how long after its end a window of this table closes, and the idle time of its windows, if any.

    Of several windows above the node, the one that closes last counts.

    Raises:
        TopologyError: No operator above the node has windows.
    """
    windows = [aggregate.window for aggregate in window_aggregates(node)]
    if not windows:
        raise TopologyError(
            f"only windows close, and there are none above {node.name!r}",
            hint="use until_time_limit(…), or aggregate with windowed_by(…) first",
        )
    idle = [window.idle for window in windows if window.idle is not None]
    return max(window.close_delay for window in windows), max(idle, default=None)


def window_aggregates(node: Node) -> list[WindowAggregate]:
    """Returns the nearest aggregates in windows above a node, or the node itself."""
    above, aggregates, seen = [node], [], set()
    while above:
        current = above.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, WindowAggregate):
            aggregates.append(current)
        else:
            above.extend(current.parents)
    return aggregates


def history(node: Node) -> int | None:
    """Returns how long a table keeps old versions of a row, or None if it is not versioned.

    A table is versioned if its own store is: a filter or mapping of a versioned table is not, unless it has such a
    store of its own.
    """
    store = getattr(node, "store", None)
    return store.retention_ms if store is not None and store.kind == "versioned" else None


def keeps_versions(node: Node) -> bool:
    """Whether rows of a table can be looked up as of a time: in its own store, or in the one it is computed from."""
    if isinstance(node, RowOperator) and node.store is None:
        return keeps_versions(node.parent)
    return history(node) is not None


def functions_of(node: Node) -> Iterator[tuple[str, Any]]:
    """Yields the functions and expressions of an operator, by option: ``predicate``, ``aggregation.add``."""
    for field in fields(node):
        yield from _functions_in(field, getattr(node, field))


def _functions_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Function):
        yield name, value.target
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _functions_in(f"{name}.{index}", part)
    elif callable(value):  # the supplier of a processor
        yield name, value
    elif isinstance(value, Frozen) and not isinstance(value, Node | StoreSpec):
        for field in fields(value):
            yield from _functions_in(f"{name}.{field}", getattr(value, field))
