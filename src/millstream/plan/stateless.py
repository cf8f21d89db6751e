"""Operators that look at one record of a stream at a time and remember nothing."""

from __future__ import annotations

from typing import Any, ClassVar

from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.serde import Serde


class Filter(Node, kw_only=True):
    """Passes the records for which the predicate holds (or does not, if ``negate``)."""

    parent: Node
    predicate: Function
    negate: bool = False


class SelectKey(Node, kw_only=True):
    """Gives each record a new key."""

    parent: Node
    function: Function

    changes_key: ClassVar[bool] = True


class Map(Node, kw_only=True):
    """Gives each record a new key and a new value."""

    parent: Node
    function: Function

    changes_key: ClassVar[bool] = True


class MapValues(Node, kw_only=True):
    """Gives each record a new value."""

    parent: Node
    function: Function


class FlatMap(Node, kw_only=True):
    """Turns each record into any number of records."""

    parent: Node
    function: Function

    changes_key: ClassVar[bool] = True


class FlatMapValues(Node, kw_only=True):
    """Turns each record into any number of records of the same key."""

    parent: Node
    function: Function


class Peek(Node, kw_only=True):
    """Calls a function for each record and passes the record on."""

    parent: Node
    function: Function


class Foreach(Node, kw_only=True):
    """Calls a function for each record; nothing follows."""

    parent: Node
    function: Function

    edge: ClassVar[Edge] = "none"


class Branch(Node, kw_only=True):
    """Deals each record to the first of its outputs whose predicate holds, or to the default output."""

    parent: Node
    predicates: tuple[Function, ...]
    default: bool = False


class BranchOutput(Node, kw_only=True):
    """One output of a `Branch`."""

    parent: Branch
    index: int


class Merge(Node, kw_only=True):
    """The records of all its parents."""

    inputs: tuple[Node, ...]

    @property
    def parents(self) -> tuple[Node, ...]:
        """The merged streams."""
        return self.inputs


class Late(Node, kw_only=True):
    """The records that its parent, a windowed operator or join, found too late."""

    parent: Node


class Repartition(Node, kw_only=True):
    """Sends records through an internal topic, so that equal keys meet in one task.

    Attributes:
        topic: The name between the application's and ``-repartition``.
        partitions: How many, if the user says so.
        mergeable: The optimizer may merge it with others below the same change of key.
        changes: What goes through are changes of a table, not records of a stream.
    """

    parent: Node
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    partitions: int | None = None
    partitioner: Function | None = None
    mergeable: bool = False
    changes: bool = False


class Sink(Node, kw_only=True):
    """Writes each record to a topic, or to the topic that a function names."""

    parent: Node
    topic: str | Function
    key: Serde[Any]
    value: Serde[Any]
    partitioner: Function | None = None

    edge: ClassVar[Edge] = "none"
