"""Operators on the changes of a table."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.serde import Serde
from millstream.state.spec import StoreSpec


class TableFilter(Node, kw_only=True):
    """The rows for which the predicate holds (or does not, if ``negate``)."""

    parent: Node
    predicate: Function
    negate: bool = False
    store: StoreSpec | None = None

    edge: ClassVar[Edge] = "table"


class TableMapValues(Node, kw_only=True):
    """The same rows with new values."""

    parent: Node
    function: Function
    store: StoreSpec | None = None

    edge: ClassVar[Edge] = "table"


class TableTransformValues(Node, kw_only=True):
    """The same rows with new values, by a function that is also called for deletions."""

    parent: Node
    function: Function
    store: StoreSpec | None = None

    edge: ClassVar[Edge] = "table"


class ToStream(Node, kw_only=True):
    """The changes of a table as the records of a stream."""

    parent: Node


class Suppress(Node, kw_only=True):
    """Holds changes back, and lets only the last one of a row go.

    Attributes:
        until: ``window_closes`` or ``time_limit``.
        wait: How far stream time must pass the buffer time of a row.
        max_records: How many rows may be held, or None.
        max_bytes: How many bytes of keys and values may be held, or None.
        when_full: ``emit_early`` or ``shut_down``.
        store: The buffer.
        sent: What was last sent for a row, kept where something below needs old values.
        key: Serde of the rows' keys, for the order in which they leave.
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
        """The buffer and what was last sent."""
        return (self.store, self.sent)
