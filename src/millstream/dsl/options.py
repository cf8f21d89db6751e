"""Options that several operators take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from millstream.core.durations import Duration, show_ms, to_ms
from millstream.core.frozen import Value
from millstream.core.names import check_name
from millstream.dsl.suggesting import suggesting
from millstream.errors import TopologyError

if TYPE_CHECKING:
    from millstream.expr import Expr


class Materialized(Value):
    """How the result of an operator is stored: passed as ``store=`` in place of a name.

    Attributes:
        name: Name of the store. A store without a name cannot be queried.
        retention: How long a window or session store retains its rows. Default: as long as they can change.
        history: Makes a key-value store versioned: it retains old values for this long, so that a stream joins the
            value that was valid at the timestamp of the record.
        logging: Whether the store has a changelog.
        view: Whether the store can be queried from outside. Each change is then also written to a view.
        key: Serde of the keys. Default: that of the data.
        value: Serde of the values. Default: that of the data.

    >>> Materialized("profiles", history="1h")
    Materialized(name='profiles', retention=None, history='1h', logging=True, view=True, key=None, value=None)
    """

    name: str | None = None
    retention: Duration | None = None
    history: Duration | None = None
    logging: bool = True
    view: bool = True
    key: Any = None
    value: Any = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "store")

    @staticmethod
    def of(store: str | Materialized | None) -> Materialized:
        """Returns the options for a ``store=`` argument."""
        if isinstance(store, Materialized):
            return store
        if store is None or isinstance(store, str):
            return Materialized(store)
        raise TopologyError(f"store: expected a name or Materialized(…), got {store!r}", hint='write store="counts"')


class StoreOptions(TypedDict, total=False):
    """Options of an operator whose result may be stored."""

    store: str | Materialized | None
    name: str | None


class ValueStoreOptions(StoreOptions, total=False):
    """Options of an operator that computes new values and may store them."""

    value: Any


class TableJoinOptions(ValueStoreOptions, total=False):
    """Options of a join of tables."""

    on: Callable[..., Any] | Expr | None


class StreamStreamOptions(TypedDict, total=False):
    """Options of a join of streams."""

    value: Any
    name: str | None
    left_value: Any
    right_value: Any


class StreamTableOptions(TypedDict, total=False):
    """Options of a join of a stream with a table."""

    value: Any
    name: str | None
    grace: Duration | None


class StreamGlobalTableOptions(TypedDict, total=False):
    """Options of a join of a stream with a global table."""

    value: Any
    name: str | None
    on: Callable[..., Any] | Expr | None


class Suppressed(Value):
    """When `Table.suppress` emits a row; returned by `until_window_closes` and `until_time_limit`."""

    until: Literal["window_closes", "time_limit"]
    limit: int = 0
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit_early", "shut_down"] = "emit_early"
    name: str | None = None
    logging: bool = True

    def __post_init__(self) -> None:
        for bound in ("max_records", "max_bytes"):
            limit = getattr(self, bound)
            if limit is not None and limit < 0:
                raise TopologyError(f"{bound} must not be negative, got {limit}")


@suggesting
def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None, name: str | None = None, logging: bool = True
) -> Suppressed:
    """Emits one final result for each window, when it closes. Only for windowed tables.

    Args:
        max_records: Limit of buffered rows. The application stops with an error when it is exceeded.
        max_bytes: Limit of buffered bytes of keys and values, likewise.
        name: Name of the operator.
        logging: Whether the buffer has a changelog.
    """
    return Suppressed("window_closes", 0, max_records, max_bytes, "shut_down", name, logging)


@suggesting
def until_time_limit(
    limit: Duration,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    when_full: Literal["emit_early", "shut_down"] = "emit_early",
    name: str | None = None,
    logging: bool = True,
) -> Suppressed:
    """Emits at most one update of each row in ``limit`` of stream time, counted from the first buffered update.

    Args:
        limit: How long an update is buffered.
        max_records: Limit of buffered rows.
        max_bytes: Limit of buffered bytes of keys and values.
        when_full: ``emit_early`` emits the oldest rows, ``shut_down`` stops the application with an error.
        name: Name of the operator.
        logging: Whether the buffer has a changelog.
    """
    wait = to_ms(limit, "limit")
    if wait < 0:
        raise TopologyError(f"the limit must not be negative, got {show_ms(wait)}")
    if when_full not in {"emit_early", "shut_down"}:
        raise TopologyError(f"when_full: {when_full!r} is neither 'emit_early' nor 'shut_down'")
    return Suppressed("time_limit", wait, max_records, max_bytes, when_full, name, logging)
