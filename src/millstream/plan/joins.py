"""Joins of streams and tables."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.plan.sources import GlobalTable
from millstream.plan.windows import JoinWindow
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

JoinKind = Literal["inner", "left", "outer"]


class StreamStreamJoin(Node, kw_only=True):
    """Pairs of records of two streams that have one key and are near in time.

    Attributes:
        left_store: What came from the left, for the right to find; ``right_store`` the other way.
        left_unmatched: Records of the left that have found no partner yet, if it is an outer side;
            ``right_unmatched`` likewise.
        single_store: Both sides are one stream, kept once (an optimisation).
    """

    left: Node
    right: Node
    how: JoinKind
    joiner: Function
    window: JoinWindow
    left_store: StoreSpec
    right_store: StoreSpec
    left_unmatched: StoreSpec | None = None
    right_unmatched: StoreSpec | None = None
    single_store: bool = False

    @property
    def parents(self) -> tuple[Node, ...]:
        """Left and right, or the one stream that is both."""
        return (self.left,) if self.single_store else (self.left, self.right)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores of both sides, and of unmatched records."""
        sides = (self.left_store,) if self.single_store else (self.left_store, self.right_store)
        return (*sides, *(spec for spec in (self.left_unmatched, self.right_unmatched) if spec is not None))


class StreamTableJoin(Node, kw_only=True):
    """Each record of a stream with the row of a table that has its key.

    Attributes:
        grace: Records wait this long in stream time, so that the table can catch up; None if they do not wait.
        buffer: Where they wait.
        key: Serde of the stream's keys, for the buffer; ``value`` likewise.
    """

    parent: Node
    table: Node
    how: JoinKind
    joiner: Function
    grace: int | None = None
    buffer: StoreSpec | None = None
    key: Serde[Any]
    value: Serde[Any]

    @property
    def parents(self) -> tuple[Node, ...]:
        """The stream only: a change of the table makes no output."""
        return (self.parent,)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The buffer, if records wait."""
        return () if self.buffer is None else (self.buffer,)


class StreamGlobalJoin(Node, kw_only=True):
    """Each record of a stream with the row of a global table whose key a function gives."""

    parent: Node
    table: GlobalTable
    how: JoinKind
    select_key: Function
    joiner: Function


class TableTableJoin(Node, kw_only=True):
    """Rows of two tables that have one key."""

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


class ForeignKeySubscribe(Node, kw_only=True):
    """The left side of a foreign-key join: tells the right side which of its rows each left row wants."""

    parent: Node
    foreign_key: Function
    how: JoinKind
    left_key: Serde[Any]
    left_value: Serde[Any]
    right_key: Serde[Any]

    changes_key: ClassVar[bool] = True


class ForeignKeyAnswer(Node, kw_only=True):
    """The right side of a foreign-key join: keeps the subscriptions and answers them."""

    subscriptions: Node
    right: Node
    left_key: Serde[Any]
    right_key: Serde[Any]
    right_value: Serde[Any]
    store: StoreSpec

    changes_key: ClassVar[bool] = True

    @property
    def parents(self) -> tuple[Node, ...]:
        """The subscriptions, and the right table."""
        return (self.subscriptions, self.right)


class ForeignKeyResolve(Node, kw_only=True):
    """The result of a foreign-key join: answers, with the left rows that asked for them."""

    parent: Node
    left: Node
    how: JoinKind
    joiner: Function
    left_value: Serde[Any]
    right_value: Serde[Any]
    store: StoreSpec

    edge: ClassVar[Edge] = "table"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The answers; the left table is only looked up."""
        return (self.parent,)
