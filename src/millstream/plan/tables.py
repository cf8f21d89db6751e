"""Operators on the changes of a table."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.serde import Serde
from millstream.state.spec import StoreSpec


class RowOperator(Node, kw_only=True):
    """The base of operators that compute each row from the row of the same key in the parent table.

    Attributes:
        parent: The table.
        store: The materialized rows; without a store, rows are computed from the parent's when they are looked up.
    """

    parent: Node
    store: StoreSpec | None = None

    edge: ClassVar[Edge] = "table"

    @property
    def rows_from(self) -> tuple[Node, ...]:
        """The parent, if the rows are not materialized."""
        return (self.parent,) if self.store is None else ()

    @property
    def old_values_from(self) -> tuple[Node, ...]:
        """The parent, if the rows are not materialized."""
        return self.rows_from


class TableFilter(RowOperator, kw_only=True):
    """The rows for which the predicate is true (or false, with ``negate``)."""

    predicate: Function
    negate: bool = False

    takes_old_values: ClassVar[bool] = True


class TableMapValues(RowOperator, kw_only=True):
    """The same rows with new values."""

    function: Function


class TableTransformValues(RowOperator, kw_only=True):
    """The same rows with new values, by a function that is also called for deletions."""

    function: Function


class ToStream(Node, kw_only=True):
    """The changes of a table as the records of a stream."""

    parent: Node

    one_to_one: ClassVar[bool] = True


class Suppress(Node, kw_only=True):
    """Buffers changes, and emits only the last change of a row.

    Attributes:
        until: ``window_closes`` or ``time_limit``.
        wait: How far stream time must pass the buffer time of a row.
        max_records: The greatest number of buffered rows, or None.
        max_bytes: The greatest number of bytes of buffered keys and values, or None.
        when_full: ``emit_early`` or ``shut_down``.
        store: The buffer.
        sent: The last emitted value of each row; exists only if an operator below needs old values.
        key: Serde of the rows' keys, for the order in which rows are emitted.
        value: Serde of the rows' values, for their size.
    """

    parent: Node
    until: Literal["window_closes", "time_limit"]
    wait: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit_early", "shut_down"] = "emit_early"
    idle: int | None = None
    key: Serde[Any]
    value: Serde[Any]
    store: StoreSpec
    sent: StoreSpec

    edge: ClassVar[Edge] = "table"

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The buffer and the last emitted values."""
        return (self.store, self.sent)

    @property
    def old_value_stores(self) -> tuple[StoreSpec, ...]:
        """The last emitted values."""
        return (self.sent,)

    @property
    def rows_from(self) -> tuple[Node, ...]:
        """The suppressed table, for rows that are not in the buffer."""
        return (self.parent,)

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The suppressed table."""
        return (self.parent,)

    @property
    def old_values_from(self) -> tuple[Node, ...]:
        """The suppressed table."""
        return (self.parent,)
