"""What all operators on streams work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.core.callsite import caller
from millstream.dsl import stream as streams
from millstream.plan.node import Node
from millstream.serde import serde_for

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")


class StreamBase(Generic[K, V]):
    """A place in the topology where records flow, and what is known of their keys and values."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        rekeyed: bool = False,
    ) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._rekeyed = rekeyed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.name})"

    def _repr_html_(self) -> str:
        from millstream.text.html import operator  # noqa: PLC0415  (only a notebook needs it)

        return operator(self, self._node, self._key, self._value)

    def _add(self, kind: Callable[..., Any], label: str, name: str | None, **fields: Any) -> Any:
        fields["name"] = self._builder.name(name, label, self._node)
        return self._builder.add(kind(at=caller(), parent=self._node, **fields))

    def _next(self, node: Node) -> Stream[K, V]:
        return streams.Stream(self._builder, node, self._key, self._value, rekeyed=self._rekeyed)

    def _function(self, target: Any, what: str) -> Any:
        return self._builder.function(target, ("key", "value"), what, has_record=True, key=self._key, value=self._value)

    def _given(self, declared: Any, part: str) -> Serde[Any] | None:
        return None if declared is None else serde_for(declared, part)

    def _result(self, declared: Any, function: Any, part: str) -> Serde[Any] | None:
        return self._builder.result_serde(declared, function, part, key=self._key, value=self._value)

    def _copartitioned(self, given: str | None, stem: str) -> Stream[K, V]:
        """This stream, behind a repartition topic if its key was changed: of the name given, or derived from a stem."""
        if not self._rekeyed:
            return streams.Stream(self._builder, self._node, self._key, self._value)
        return self._repartitioned(given if given is not None else self._builder.topic_name(stem))

    def _joinable(self, given: str | None) -> Stream[K, V]:
        """The same for a join; joins that the user does not name share one topic for each stream."""
        if given is not None or not self._rekeyed:
            return self._copartitioned(given, "")
        node = self._builder.shared_by_joins(self._node)
        if node is not None:
            return streams.Stream(self._builder, node, node.key, node.value)
        made = self._repartitioned(self._builder.topic_name(self._builder.stem("join", self._node)))
        self._builder.share_with_joins(self._node, made._node)
        return made

    def _repartitioned(self, topic: str) -> Stream[K, V]:
        node = self._builder.repartition(
            self._node,
            topic,
            self._builder.serde(self._key, "key"),
            self._builder.serde(self._value, "value"),
            mergeable=True,
        )
        return streams.Stream(self._builder, node, node.key, node.value)
