"""Adds `Table.suppress` to the topology."""

from __future__ import annotations

from typing import Any

from millstream.core.callsite import caller
from millstream.core.durations import later
from millstream.dsl.internals import NodeOutput
from millstream.dsl.options import Suppressed
from millstream.errors import TopologyError
from millstream.plan.tables import Suppress
from millstream.plan.walk import close_delay, history, window_aggregates
from millstream.serde import BYTES, HEADERS, LONG, Serde, tuple_of
from millstream.serde.windowed import SessionWindowedSerde, TimeWindowedSerde
from millstream.state.spec import StoreSpec


def suppress(table: NodeOutput, until: Suppressed) -> NodeOutput:
    """Adds an operator that buffers the changes of a table."""
    if not isinstance(until, Suppressed):
        raise TopologyError(f"suppress: expected until_window_closes(…) or until_time_limit(…), got {until!r}")
    if history(table.node) is not None:
        raise TopologyError(
            "a versioned table cannot be suppressed", hint="use a store without history, or suppress before"
        )
    delay, idle = close_delay(table.node) if until.until == "window_closes" else (until.limit, None)
    if until.until == "window_closes" and not isinstance(table.key, TimeWindowedSerde | SessionWindowedSerde):
        raise TopologyError(
            f"the keys of {table.node.name!r} are no longer windowed, so it is unknown when a row is final",
            hint="suppress before the rows are grouped or get other keys",
        )
    builder = table.builder
    label = builder.name(until.name, "suppress", table.node)
    key, value = table.key_serde, table.value_serde
    if until.name is None:
        builder.check_explicit(label)
    # key, new value, old value of the first buffered change, timestamp, headers
    fields = tuple_of(key, value, value, LONG, HEADERS, keys=1)
    node = Suppress(
        name=label,
        at=caller(),
        parent=table.node,
        until=until.until,
        wait=delay,
        max_records=until.max_records,
        max_bytes=until.max_bytes,
        when_full=until.when_full,
        idle=idle,
        key=key,
        value=value,
        store=StoreSpec(name=f"{label}-store", kind="buffer", key=BYTES, value=fields, logged=until.logging),
        sent=_sent(table, f"{label}-sent-store", key, value, logged=until.logging),
    )
    return table.then(builder.add(node, lineage=label))


def _sent(table: NodeOutput, name: str, key: Serde[Any], value: Serde[Any], *, logged: bool) -> StoreSpec:
    """Returns the store of the last change emitted for each row, which retains windows as long as they can change."""
    retentions = [aggregate.store.retention_ms or 0 for aggregate in window_aggregates(table.node)]
    if not retentions or not isinstance(key, TimeWindowedSerde | SessionWindowedSerde):
        return StoreSpec(name=name, kind="key-value", key=key, value=value, logged=logged)
    session = isinstance(key, SessionWindowedSerde)
    return StoreSpec(
        name=name,
        kind="session" if session else "window",
        key=key.inner,
        value=value,
        retention_ms=later(max(retentions), 1),
        window_size_ms=None if session else getattr(key, "size_ms", None),
        logged=logged,
    )
