"""Derives store specifications from ``store=`` arguments, and the names of stores from their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from millstream.core.durations import END_OF_TIME, Duration, show_ms, to_ms
from millstream.core.names import check_name
from millstream.dsl.internals import Dataset, internals_of
from millstream.dsl.options import Materialized
from millstream.errors import TopologyError, UnknownStoreError
from millstream.plan.windows import SessionWindow, SlidingWindow, TimeWindow, UnlimitedWindow, Window
from millstream.serde import Serde, serde_for
from millstream.state.spec import StoreSpec

if TYPE_CHECKING:
    from millstream.dsl.table import GlobalTable, Table


StoreKind = Literal["key-value", "timestamped", "window", "session", "versioned"]


def key_value(options: Materialized, name: str, key: Serde[Any], value: Serde[Any]) -> StoreSpec:
    """Returns the store of a table: the latest value of each key and its timestamp, or all values if versioned.

    ``name`` is used if the options have none.
    """
    if options.retention is not None:
        raise TopologyError(
            "retention is for windows; this table has none",
            hint="use history=… for a versioned table, or ttl=… to expire rows",
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
    """Returns the store of a windowed table: one row for each key and window. ``name`` is as for `key_value`."""
    if options.history is not None:
        raise TopologyError(
            "history is for plain tables; a windowed table cannot be versioned",
            hint="retention=… retains windows longer",
        )
    retention = window.retention if options.retention is None else to_ms(options.retention, "retention")
    if retention < window.retention:
        raise TopologyError(
            f"retention {show_ms(retention)} is shorter than the windows need ({show_ms(window.retention)})",
            hint="retention must cover the time in which a window can change: its size and the grace",
        )
    session = isinstance(window, SessionWindow)
    return StoreSpec(
        name=options.name if options.name is not None else name,
        kind="session" if session else "window",
        key=serde_for(options.key, "key") if options.key is not None else key,
        value=serde_for(options.value, "value") if options.value is not None else value,
        timestamped=not session,
        retention_ms=retention,
        window_size_ms=_window_length(window),
        inclusive=isinstance(window, SlidingWindow),
        held=emit_on_close,
        logged=options.logging,
        viewed=options.view,
        named=options.name is not None,
    )


def store_of_processors(
    name: str,
    kind: StoreKind,
    key: Serde[Any],
    value: Serde[Any],
    *,
    retention: Duration | None,
    window_size: Duration | None,
    duplicates: bool,
    logged: bool,
    viewed: bool,
) -> StoreSpec:
    """Returns the store that `App.add_store` adds."""
    if kind not in {"key-value", "timestamped", "window", "session", "versioned"}:
        raise TopologyError(f"add_store: unknown kind of store: {kind!r}")
    needs_retention = kind in {"window", "session", "versioned"}
    if needs_retention != (retention is not None):
        raise TopologyError(
            f"add_store: a {kind} store {'needs a' if needs_retention else 'has no'} retention",
            hint='retention="1h"' if needs_retention else None,
        )
    if (kind == "window") != (window_size is not None):
        raise TopologyError("add_store: window stores, and no others, have a window_size")
    retention_ms = None if retention is None else to_ms(retention, "retention")
    size = None if window_size is None else to_ms(window_size, "window_size")
    if (retention_ms or 0) < 0 or (size or 0) < 0:
        raise TopologyError("add_store: retention and window_size must not be negative")
    if retention_ms is not None and size is not None and retention_ms < size:
        raise TopologyError(
            f"add_store: the retention ({show_ms(retention_ms)}) is shorter than a window ({show_ms(size)})"
        )
    if duplicates and kind != "window":
        raise TopologyError("add_store: only window stores can retain duplicates")
    return StoreSpec(
        name=check_name(name, "store"),
        kind="key-value" if kind == "timestamped" else kind,
        key=key,
        value=value,
        timestamped=kind == "timestamped",
        retention_ms=retention_ms,
        window_size_ms=size,
        duplicates=duplicates,
        logged=logged,
        viewed=viewed,
        named=True,
    )


def _window_length(window: Window) -> int | None:
    """Returns the length that all windows have, None if it varies."""
    if isinstance(window, TimeWindow):
        return window.size
    if isinstance(window, SlidingWindow):
        return window.difference
    return END_OF_TIME if isinstance(window, UnlimitedWindow) else None


def name_of(store: str | Table[Any, Any] | GlobalTable[Any, Any]) -> str:
    """Returns the name of a store, given the name or the table.

    Raises:
        UnknownStoreError: The table has no named store, or its store is not a key-value store.
    """
    if isinstance(store, str):
        return store
    spec = getattr(internals_of(store).node, "store", None) if isinstance(store, Dataset) else None
    if not isinstance(spec, StoreSpec) or not spec.named:
        raise UnknownStoreError(
            f"{store!r} has no named store of its own", hint="name the store where the table is defined: store=…"
        )
    if spec.kind != "key-value":
        raise UnknownStoreError(
            f"the store of {store!r} is a {spec.kind} store, which is queried by time",
            hint=f"pass the name of the store: {spec.name!r}",
        )
    return spec.name
