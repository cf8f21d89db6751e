"""Nodes that read topics: streams, tables and global tables."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.core.frozen import Value
from millstream.plan.contracts import Contract
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node, Role, WhenMaterialized
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

OnInvalid = Literal["fail", "skip", "partition_time"]


class Timestamps(Value):
    """How a source determines the timestamp of a record.

    Attributes:
        source: ``record`` (the record's own timestamp), ``wall_clock`` or ``function``.
        function: Of key, value, record timestamp and partition time (-1 if none yet), for ``function``.
        on_invalid: The handling of a negative timestamp: ``fail``, ``skip``, or ``partition_time``, the greatest
            timestamp read from that partition so far.
    """

    source: Literal["record", "wall_clock", "function"] = "record"
    function: Function | None = None
    on_invalid: OnInvalid = "fail"

    @property
    def pure(self) -> bool:
        """Whether the timestamp depends on the record alone, not on earlier records of the partition."""
        if self.source == "function":
            return self.function is not None and "partition_time" not in self.function.roles
        return self.source == "wall_clock" or self.on_invalid != "partition_time"


class Source(Node, kw_only=True):
    """A stream of the records of one topic, of several topics, or of all topics that match a pattern."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key: Serde[Any]
    value: Serde[Any]
    timestamps: Timestamps = Timestamps()
    offset_reset: str | None = None
    contract: Contract | None = None

    role: ClassVar[Role] = "source"
    pure: ClassVar[bool] = True

    @property
    def needs_task(self) -> bool:
        """Whether only a task can read the records."""
        return not self.timestamps.pure


class ToTable(Node, kw_only=True):
    """The records of a stream as rows of a table, which contains the last value of each key.

    Attributes:
        source_topic: The topic that can serve as the changelog, if there is one.
        reuse_source: The source topic serves as the changelog (an optimization).
    """

    parent: Node
    store: StoreSpec
    source_topic: str | None = None
    reuse_source: bool = False

    edge: ClassVar[Edge] = "table"
    materialized: ClassVar[WhenMaterialized] = "on_demand"


class GlobalTable(Node, kw_only=True):
    """A table of a topic's records, complete in every task."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    store: StoreSpec
    timestamps: Timestamps = Timestamps()
    contract: Contract | None = None

    edge: ClassVar[Edge] = "none"
    role: ClassVar[Role] = "global"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic."""
        return (self.topic,)
