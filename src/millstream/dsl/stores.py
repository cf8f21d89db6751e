"""Turns ``store=`` arguments into the specifications of stores, and tables into the names of their stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.durations import END_OF_TIME, show_ms, to_ms
from millstream.dsl.options import Materialized
from millstream.errors import TopologyError, UnknownStoreError
from millstream.plan.windows import SessionWindow, SlidingWindow, TimeWindow, UnlimitedWindow, Window
from millstream.serde import Serde, serde_for
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.dsl.table import GlobalTable, Table


def key_value(options: Materialized, name: str, key: Serde[Any], value: Serde[Any]) -> StoreSpec:
    """The store of a table: the last value and its timestamp for each key, or all of them if versioned.

    ``name`` is the store's if the options have none.
    """
    if options.retention is not None:
        raise TopologyError(
            "retention is for windows; this table has none",
            hint="use history=… for a versioned table, or table TTL (ttl=…) to let rows expire",
        )
    shape: dict[str, Any] = {"kind": "key-value", "timestamped": True}
    if options.history is not None:
        history = to_ms(options.history, "history")
        if history < 0:
            raise TopologyError(
                f"history must not be negative, got {show_ms(history)}", hint="leave it out for a plain table"
            )
        shape = {"kind": "versioned", "retention_ms": history}
    return StoreSpec(
        name=options.name if options.name is not None else name,
        key=serde_for(options.key, "key") if options.key is not None else key,
        value=serde_for(options.value, "value") if options.value is not None else value,
        logged=options.logging,
        viewed=options.view,
        named=options.name is not None,
        **shape,
    )


def windowed(
    options: Materialized, name: str, key: Serde[Any], value: Serde[Any], window: Window, *, emit_on_close: bool
) -> StoreSpec:
    """The store of a windowed table: one row for each key and window. ``name`` is as for `key_value`."""
    if options.history is not None:
        raise TopologyError(
            "history is for plain tables; a windowed table cannot be versioned",
            hint="retention=… keeps windows longer",
        )
    retention = window.retention if options.retention is None else to_ms(options.retention, "retention")
    if retention < window.retention:
        raise TopologyError(
            f"retention {show_ms(retention)} is shorter than the windows need ({show_ms(window.retention)})",
            hint="a window must be kept at least as long as it can change: its size and the grace",
        )
    session = isinstance(window, SessionWindow)
    return StoreSpec(
        name=options.name if options.name is not None else name,
        kind="session" if session else "window",
        key=serde_for(options.key, "key") if options.key is not None else key,
        value=serde_for(options.value, "value") if options.value is not None else value,
        timestamped=not session,
        retention_ms=retention,
        window_size_ms=window_length(window),
        inclusive=isinstance(window, SlidingWindow),
        held=emit_on_close,
        logged=options.logging,
        viewed=options.view,
        named=options.name is not None,
    )


def window_length(window: Window) -> int | None:
    """End minus start of a window, if all have the same."""
    if isinstance(window, TimeWindow):
        return window.size
    if isinstance(window, SlidingWindow):
        return window.difference
    return END_OF_TIME if isinstance(window, UnlimitedWindow) else None


def name_of(store: str | Table[Any, Any] | GlobalTable[Any, Any]) -> str:
    """Returns the name of a store that is given by its name or by its table.

    Raises:
        UnknownStoreError: The table has no named store of its own, or one that is not a key-value store.
    """
    if isinstance(store, str):
        return store
    spec = getattr(getattr(store, "_node", None), "store", None)
    if not isinstance(spec, StoreSpec) or not spec.named:
        raise UnknownStoreError(
            f"{store!r} has no named store of its own", hint="name it where the table is made: store=…"
        )
    if spec.kind != "key-value":
        raise UnknownStoreError(
            f"the store of {store!r} is a {spec.kind} store, which is queried by time",
            hint=f"give the name of the store: {spec.name!r}",
        )
    return spec.name
