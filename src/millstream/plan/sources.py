"""Where records come in: streams, tables and global tables over topics."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from millstream.core.frozen import Value
from millstream.plan.functions import Function
from millstream.plan.node import Edge, Node
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

OnInvalid = Literal["fail", "skip", "partition_time"]


class Timestamps(Value):
    """How a record gets its time.

    Attributes:
        source: ``record`` (the record's own timestamp), ``wall_clock`` or ``function``.
        function: Of key, value, record timestamp and partition time (-1 if none yet), for ``function``.
        on_invalid: What happens to a negative timestamp: ``fail``, ``skip``, or ``partition_time``, the greatest
            timestamp seen in that partition.
    """

    source: Literal["record", "wall_clock", "function"] = "record"
    function: Function | None = None
    on_invalid: OnInvalid = "fail"


class Source(Node, kw_only=True):
    """A stream over one topic, several, or all that match a pattern."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key: Serde[Any]
    value: Serde[Any]
    timestamps: Timestamps = Timestamps()
    offset_reset: str | None = None


class ToTable(Node, kw_only=True):
    """The records of a stream as the rows of a table: the last value of a key counts.

    Attributes:
        source_topic: The topic that can stand in for the changelog, if there is one.
        reuse_source: The source topic is the changelog (an optimisation).
    """

    parent: Node
    store: StoreSpec
    source_topic: str | None = None
    reuse_source: bool = False

    edge: ClassVar[Edge] = "table"


class GlobalTable(Node, kw_only=True):
    """A table over a topic, whole in every task."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    store: StoreSpec
    timestamps: Timestamps = Timestamps()

    edge: ClassVar[Edge] = "none"
