"""Operators that process one record of a stream at a time, without state."""

from __future__ import annotations

from typing import Any, ClassVar

from millstream.plan.contracts import Contract
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node, Role
from millstream.serde import Serde


class Filter(Node, kw_only=True):
    """Passes the records for which the predicate is true (or false, with ``negate``)."""

    parent: Node
    predicate: Function
    negate: bool = False

    pure: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True


class SelectKey(Node, kw_only=True):
    """Gives each record a new key."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True
    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("function",)


class Map(Node, kw_only=True):
    """Gives each record a new key and a new value."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True
    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("function",)


class MapValues(Node, kw_only=True):
    """Gives each record a new value."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True


class WithTimestamp(Node, kw_only=True):
    """Gives each record a new timestamp.

    New timestamps determine the order of records behind an exchange, so the operator keeps its place (it does not
    declare `keeps_records`) and needs the order of its input.
    """

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True


class FlatMap(Node, kw_only=True):
    """Turns each record into any number of records."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    changes_key: ClassVar[bool] = True
    key_options: ClassVar[tuple[str, ...]] = ("function",)


class FlatMapValues(Node, kw_only=True):
    """Turns each record into any number of records with the same key."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True


class Peek(Node, kw_only=True):
    """Calls a function for each record and passes the record on."""

    parent: Node
    function: Function

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True
    has_effects: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True


class Foreach(Node, kw_only=True):
    """Calls a function for each record; no output."""

    parent: Node
    function: Function

    edge: ClassVar[Edge] = "none"
    pure: ClassVar[bool] = True
    has_effects: ClassVar[bool] = True


class Branch(Node, kw_only=True):
    """Sends each record to the first of its outputs whose predicate is true, or to the default output."""

    parent: Node
    predicates: tuple[Function, ...]
    default: bool = False

    pure: ClassVar[bool] = True


class BranchOutput(Node, kw_only=True):
    """One output of a `Branch`."""

    parent: Branch
    index: int

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True


class Merge(Node, kw_only=True):
    """The records of all its parents."""

    inputs: tuple[Node, ...]

    pure: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = True

    @property
    def parents(self) -> tuple[Node, ...]:
        """The merged streams."""
        return self.inputs


class Late(Node, kw_only=True):
    """The late records of its parent, a windowed operator or join."""

    parent: Node


class Repartition(Node, kw_only=True):
    """Sends records through an internal topic, so that records with equal keys reach the same task.

    Attributes:
        topic: The name between the application id and ``-repartition``.
        partitions: The number of partitions, if the user gave one.
        mergeable: The optimizer may merge it with others below the same change of key.
        changes: The records are changes of a table, not records of a stream.
    """

    parent: Node
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    partitions: int | None = None
    partitioner: Function | None = None
    mergeable: bool = False
    changes: bool = False

    role: ClassVar[Role] = "exchange"
    pure: ClassVar[bool] = True
    needs_task: ClassVar[bool] = True
    """Only a task can read the records, which other tasks have sent."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The internal topic, without the application id."""
        return (f"{self.topic}-repartition",)


class Sink(Node, kw_only=True):
    """Writes each record to a topic, or to the topic that a function returns."""

    parent: Node
    topic: str | Function
    key: Serde[Any]
    value: Serde[Any]
    partitioner: Function | None = None
    contract: Contract | None = None

    edge: ClassVar[Edge] = "none"
    role: ClassVar[Role] = "sink"
    pure: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic, if its name is fixed."""
        return (self.topic,) if isinstance(self.topic, str) else ()

    @property
    def topic_function(self) -> Function | None:
        """The function that returns the topic of each record."""
        return self.topic if isinstance(self.topic, Function) else None
