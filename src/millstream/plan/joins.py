"""Joins of streams and tables."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node, WhenMaterialized
from millstream.plan.sources import GlobalTable
from millstream.plan.windows import JoinWindow
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

JoinKind = Literal["inner", "left", "outer"]


class StreamJoin(Node, kw_only=True):
    """The base of joins that emit records of a stream."""

    how: JoinKind

    @property
    def needs_null_keys(self) -> bool:
        """Left and outer joins emit records without a key, which never match."""
        return self.how != "inner"


class StreamStreamJoin(StreamJoin, kw_only=True):
    """Pairs of records of two streams with equal keys and timestamps within the window.

    Attributes:
        left_store: The records of the left, which records of the right look up; ``right_store`` the other way.
        left_unmatched: Records of the left without a match so far, if unmatched records of this side are emitted;
            ``right_unmatched`` likewise.
        single_store: Both sides are one stream, stored once (an optimization).
    """

    left: Node
    right: Node
    joiner: Function
    window: JoinWindow
    left_store: StoreSpec
    right_store: StoreSpec
    left_unmatched: StoreSpec | None = None
    right_unmatched: StoreSpec | None = None
    single_store: bool = False

    holds_input: ClassVar[bool] = True

    @property
    def parents(self) -> tuple[Node, ...]:
        """Left and right, or the one stream that is both."""
        return (self.left,) if self.single_store else (self.left, self.right)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores of both sides, and of unmatched records."""
        sides = (self.left_store,) if self.single_store else (self.left_store, self.right_store)
        return (*sides, *(spec for spec in (self.left_unmatched, self.right_unmatched) if spec is not None))


class StreamTableJoin(StreamJoin, kw_only=True):
    """Each record of a stream with the table row of the same key.

    Attributes:
        grace: The stream time for which records wait for the table to catch up; None if they do not wait.
        buffer: The waiting records.
        key: Serde of the stream's keys, for the buffer; ``value`` likewise.
    """

    parent: Node
    table: Node
    joiner: Function
    grace: int | None = None
    buffer: StoreSpec | None = None
    key: Serde[Any]
    value: Serde[Any]

    holds_input: ClassVar[bool] = True

    @property
    def parents(self) -> tuple[Node, ...]:
        """The stream only: a change of the table causes no output."""
        return (self.parent,)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The buffer, if records wait."""
        return () if self.buffer is None else (self.buffer,)

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The table."""
        return (self.table,)


class StreamGlobalJoin(StreamJoin, kw_only=True):
    """Each record of a stream with the row of a global table whose key a function returns."""

    parent: Node
    table: GlobalTable
    select_key: Function
    joiner: Function

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The global table."""
        return (self.table,)


class TableTableJoin(Node, kw_only=True):
    """Rows of two tables with equal keys."""

    left: Node
    right: Node
    how: JoinKind
    joiner: Function
    store: StoreSpec | None = None

    edge: ClassVar[Edge] = "table"

    @property
    def parents(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """Left and right: a change of one side looks up the row of the other."""
        return (self.left, self.right)

    @property
    def rows_from(self) -> tuple[Node, ...]:
        """Left and right, if the rows are not materialized."""
        return (self.left, self.right) if self.store is None else ()

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The sides whose unmatched rows are in the result."""
        return {"inner": (), "left": (self.left,), "outer": (self.left, self.right)}[self.how]

    @property
    def old_values_from(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)


class ForeignKeySubscribe(Node, kw_only=True):
    """The left side of a foreign-key join: subscribes each left row to the right row of its foreign key."""

    parent: Node
    foreign_key: Function
    how: JoinKind
    left_key: Serde[Any]
    left_value: Serde[Any]
    right_key: Serde[Any]

    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("foreign_key", "how")
    sends_messages: ClassVar[bool] = True

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The left table, to unsubscribe from the previous foreign key."""
        return (self.parent,)


class ForeignKeyAnswer(Node, kw_only=True):
    """The right side of a foreign-key join: stores the subscriptions and answers them."""

    subscriptions: Node
    right: Node
    left_key: Serde[Any]
    right_key: Serde[Any]
    right_value: Serde[Any]
    store: StoreSpec

    changes_key: ClassVar[bool] = True
    sends_messages: ClassVar[bool] = True

    @property
    def parents(self) -> tuple[Node, ...]:
        """The subscriptions, and the right table."""
        return (self.subscriptions, self.right)

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The right table."""
        return (self.right,)

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The right table."""
        return (self.right,)


class ForeignKeyResolve(Node, kw_only=True):
    """The result of a foreign-key join: answers, joined with the left rows that subscribed to them."""

    parent: Node
    left: Node
    how: JoinKind
    joiner: Function
    left_value: Serde[Any]
    right_value: Serde[Any]
    store: StoreSpec

    edge: ClassVar[Edge] = "table"
    materialized: ClassVar[WhenMaterialized] = "on_demand"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The answers; the left table is only looked up."""
        return (self.parent,)

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The left table."""
        return (self.left,)
