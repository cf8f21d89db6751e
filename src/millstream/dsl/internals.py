"""The internal side of the objects that users build a topology with.

Users call the operators of streams, tables and groupings. The modules of this package also need the builder, the node
and the serdes behind such an object. `internals_of` returns them, and is the only access from outside the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from millstream.core.callsite import caller
from millstream.core.frozen import Frozen, replace
from millstream.serde import serde_for

if TYPE_CHECKING:
    from millstream.plan.builder import Builder
    from millstream.plan.functions import Function
    from millstream.plan.node import Node
    from millstream.serde import Serde

    class Internals(Protocol):
        """The internal side of any object of the DSL."""

        @property
        def builder(self) -> Builder:
            """The topology that the object belongs to."""
            ...


K = TypeVar("K")
V = TypeVar("V")
InternalsT = TypeVar("InternalsT", bound="Internals")

KEY_VALUE = ("key", "value")
JOINER = ("key", "left", "right")


class DslObject(Generic[InternalsT]):
    """Base of the objects that users build a topology with."""

    def __init__(self, internals: InternalsT) -> None:
        self._internals = internals


def internals_of(part: DslObject[InternalsT]) -> InternalsT:
    """Returns the internal side of an object.

    It is a `NodeOutput` for streams and tables, a `Grouping` or `Cogrouping` for groupings, and `Inputs` for an `App`.
    """
    return part._internals


class NodeOutput(Frozen):
    """The output of a node of the topology, as the operators that read it see it.

    Attributes:
        builder: The topology under construction.
        node: The node.
        key: Serde of the keys, None if unknown.
        value: Serde of the values, None if unknown.
        rekeyed: Whether keys may have changed since the last repartition, so that records of one key may be in several
            partitions.
    """

    builder: Builder
    node: Node
    key: Serde[Any] | None
    value: Serde[Any] | None
    rekeyed: bool = False

    def __post_init__(self) -> None:
        self.builder.edge(self.node, self.key, self.value)

    @property
    def key_serde(self) -> Serde[Any]:
        """Serde of the keys: the application's default if unknown."""
        return self.builder.serde(self.key, "key")

    @property
    def value_serde(self) -> Serde[Any]:
        """Serde of the values: the application's default if unknown."""
        return self.builder.serde(self.value, "value")

    def add(self, kind: Callable[..., Any], label: str, name: str | None, **fields: Any) -> Any:
        """Adds an operator that reads this output, and returns its node."""
        fields["name"] = self.builder.name(name, label, self.node)
        return self.builder.add(kind(at=caller(), parent=self.node, **fields))

    def then(self, node: Node, **changes: Any) -> NodeOutput:
        """Returns the output of a later node, which has the same serdes except for ``changes``."""
        return replace(self, node=node, **changes)

    def declared(self, key: Any, value: Any) -> NodeOutput:
        """Returns this output with the serdes that the user declared."""
        return replace(
            self, key=declared_serde(key, "key") or self.key, value=declared_serde(value, "value") or self.value
        )

    def function(self, target: Any, option: str, roles: tuple[str, ...] = KEY_VALUE) -> Function:
        """Wraps a function of the user's that reads keys and values."""
        return self.builder.function(target, roles, option, key=self.key, value=self.value)

    def record_function(self, target: Any, option: str) -> Function:
        """Wraps a function of the user's that may also read the timestamp and the headers of a record."""
        return self.builder.function(target, KEY_VALUE, option, has_record=True, key=self.key, value=self.value)

    def result_serde(self, declared: Any, function: Function, part: str) -> Serde[Any] | None:
        """Returns the serde of the results of a function, None if unknown."""
        return self.builder.result_serde(declared, function, part, key=self.key, value=self.value)

    def joiner(self, right: NodeOutput, joiner: Any, value: Any) -> tuple[Function, Serde[Any] | None]:
        """Wraps the joiner of a join with ``right``, and returns it with the serde of its results."""
        serdes: dict[str, Any] = {"key": self.key, "left": self.value, "right": right.value}
        function = self.builder.function(joiner, JOINER, "joiner", **serdes)
        return function, self.builder.result_serde(value, function, "value", **serdes)

    def copartitioned(self, topic: str | None, stem: str) -> NodeOutput:
        """Returns this output, repartitioned if keys may have changed.

        Args:
            topic: The user's name of the repartition topic.
            stem: The name to derive that of the topic from, if the user gave none.
        """
        if not self.rekeyed:
            return self
        return self._repartitioned(topic if topic is not None else self.builder.topic_name(stem))

    def joinable(self, topic: str | None) -> NodeOutput:
        """Returns the same for a join. Unnamed joins of one output share its repartition topic."""
        if topic is not None or not self.rekeyed:
            return self.copartitioned(topic, "")
        node = self.builder.shared_by_joins(self.node)
        if node is not None:
            return NodeOutput(self.builder, node, node.key, node.value)
        output = self._repartitioned(self.builder.topic_name(self.builder.stem("join", self.node)))
        self.builder.share_with_joins(self.node, output.node)
        return output

    def _repartitioned(self, topic: str) -> NodeOutput:
        node = self.builder.repartition(self.node, topic, self.key_serde, self.value_serde, mergeable=True)
        return NodeOutput(self.builder, node, node.key, node.value)


class Dataset(DslObject[NodeOutput], Generic[K, V]):
    """Base of streams and tables."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._internals.node.name})"

    def _repr_html_(self) -> str:
        from millstream.text.html import operator  # noqa: PLC0415  (only a notebook needs it)

        return operator(self, self._internals.node, self._internals.key, self._internals.value)


def declared_serde(declared: Any, part: str) -> Serde[Any] | None:
    """Returns the serde that the user declared as a type, a name or a `Serde`; None if nothing was declared."""
    return None if declared is None else serde_for(declared, part)
