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
    """How the result of an operator is kept: for operators that take ``store=`` and need more than a name.

    Attributes:
        name: Name of the store; without one, the store cannot be queried.
        retention: How long rows of a window or session store are kept (default: as long as they can change).
        history: Makes a key-value store versioned: it keeps old values for this long, so that a stream can be joined
            with the value that was valid at a record's time.
        logging: Whether the store has a changelog.
        view: Whether the store can be queried from outside; each change is then written to a view, too.
        key: Serde of the keys, if not the one that the data comes with.
        value: Serde of the values, if not the one that the data comes with.

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
        """Returns the options that a ``store=`` argument stands for."""
        if isinstance(store, Materialized):
            return store
        if store is None or isinstance(store, str):
            return Materialized(store)
        raise TopologyError(f"store: expected a name or Materialized(…), got {store!r}", hint='write store="counts"')


class StoreOptions(TypedDict, total=False):
    """Options of an operator whose result may be kept in a store."""

    store: str | Materialized | None
    name: str | None


class ValueStoreOptions(StoreOptions, total=False):
    """The same of an operator that makes new values."""

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
    """When `Table.suppress` lets a row go; made by `until_window_closes` and `until_time_limit`."""

    until: Literal["window_closes", "time_limit"]
    limit: int = 0
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit_early", "shut_down"] = "emit_early"
    name: str | None = None
    logging: bool = True

    def __post_init__(self) -> None:
        for bound in ("max_records", "max_bytes"):
            given = getattr(self, bound)
            if given is not None and given < 0:
                raise TopologyError(f"{bound} must not be negative, got {given}")


@suggesting
def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None, name: str | None = None, logging: bool = True
) -> Suppressed:
    """One final result for each window, when it closes. Only for windowed tables.

    Args:
        max_records: How many rows may wait; the application stops with an error if there are more.
        max_bytes: How many bytes of keys and values may wait; the same.
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
    """No more than one update for each row in ``limit`` of stream time, counted from the first update held back.

    Args:
        limit: How long an update waits.
        max_records: How many rows may wait.
        max_bytes: How many bytes of keys and values may wait.
        when_full: ``emit_early`` lets the oldest rows go, ``shut_down`` stops the application with an error.
        name: Name of the operator.
        logging: Whether the buffer has a changelog.
    """
    wait = to_ms(limit, "limit")
    if wait < 0:
        raise TopologyError(f"the limit must not be negative, got {show_ms(wait)}")
    if when_full not in {"emit_early", "shut_down"}:
        raise TopologyError(f"when_full: {when_full!r} is neither 'emit_early' nor 'shut_down'")
    return Suppressed("time_limit", wait, max_records, max_bytes, when_full, name, logging)
