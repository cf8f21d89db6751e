"""The stateless operators of streams that observe, route and merge records without changing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.dsl import stream as streams
from millstream.dsl.internals import Dataset, internals_of
from millstream.dsl.signatures import OfKeyValueAndHeaders, OfValueAndHeaders
from millstream.dsl.suggesting import suggesting_methods
from millstream.errors import TopologyError
from millstream.expr import Expr
from millstream.plan import stateless as plan
from millstream.plan.builder import shorten
from millstream.text.escaping import printable

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream
    from millstream.plan.node import Node
    from millstream.serde import Serde

K = TypeVar("K")
V = TypeVar("V")


@suggesting_methods
class RoutingOperators(Dataset[K, V]):
    """The operators of a `Stream` that observe, route and merge records."""

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: OfValueAndHeaders[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    def peek(self, action: Any, *, name: str | None = None) -> Stream[K, V]:
        """Calls a function for each record, for its side effect, and passes the record on. Stateless.

        The function is called at least once for each record; after a failure, records are replayed.
        """
        wrapped = self._internals.record_function(action, "peek")
        return self._then(self._internals.add(plan.Peek, "peek", name, function=wrapped))

    @overload
    def foreach(self, action: Callable[[V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: OfValueAndHeaders[V, object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: OfKeyValueAndHeaders[K, V, object], *, name: str | None = None) -> None: ...
    def foreach(self, action: Any, *, name: str | None = None) -> None:
        """Calls a function for each record, for its side effect, at least once. Stateless; ends the stream."""
        wrapped = self._internals.record_function(action, "foreach")
        self._internals.add(plan.Foreach, "foreach", name, function=wrapped)

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record as ``[label]: key, value``. Stateless; ends the stream.

        Control characters in keys and values are escaped. Default of the label: the name of the input operator.
        """
        prefix = label or self._internals.node.name

        def show(key: K, value: V) -> None:
            print(f"[{prefix}]: {printable(str(key))}, {printable(str(value))}")  # noqa: T201

        self._internals.add(plan.Foreach, "print", name, function=self._internals.record_function(show, "print"))

    def split(
        self,
        branches: Mapping[str, Callable[..., object] | Expr],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """Routes each record to the first branch whose predicate is true. Stateless.

        Args:
            branches: The predicates by the names of their branches, in the order of evaluation.
            default: Name of the branch for records that match no predicate. Without it, these records are dropped.
            name: Name of the operator.

        Returns:
            The streams by the names of their branches, the default branch included.

        >>> from millstream import App, TestDriver, value
        >>> app = App("routing")
        >>> lines = app.stream("log", value=str).split({"errors": value().starts_with("ERROR")}, default="rest")
        >>> lines["errors"].to("high-priority")
        >>> with TestDriver(app) as driver:
        ...     driver.input("log").pipe("ERROR disk full")
        ...     driver.input("log").pipe("INFO fine")
        ...     driver.output("high-priority").read_values()
        ['ERROR disk full']
        """
        names = [*branches, *([default] if default is not None else [])]
        if len(set(names)) != len(names):
            raise TopologyError(
                f"split: the default branch {default!r} has the name of another branch", hint="choose another name"
            )
        for branch in names:
            check_name(branch, "branch")
        internals, builder = self._internals, self._internals.builder
        predicates = tuple(internals.record_function(p, f"split, branch {n!r}") for n, p in branches.items())
        node = internals.add(plan.Branch, "split", name, predicates=predicates, default=default is not None)
        outputs = {}
        for index, branch in enumerate(names):
            label = builder.name(None, branch, node, base=node.name)
            output = plan.BranchOutput(name=label, at=caller(), parent=node, index=index)
            outputs[branch] = self._then(builder.add(output, lineage=f"{builder.lineage(node)}-{branch}"))
        return outputs

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """Merges this stream with others. Stateless; records of different streams have no defined order."""
        for other in others:
            if not isinstance(other, streams.Stream):
                raise TopologyError(f"merge: expected streams, got {other!r}", hint="convert a table with to_stream()")
        inputs = [self._internals, *(internals_of(other) for other in others)]
        parents = tuple(dict.fromkeys(output.node for output in inputs))
        builder = self._internals.builder
        node = plan.Merge(name=builder.name(name, "merge", *parents), at=caller(), inputs=parents)
        builder.add(node, lineage=name or shorten(builder.lineage(*parents)))
        return self._then(
            node,
            key=_common(output.key for output in inputs),
            value=_common(output.value for output in inputs),
            rekeyed=any(output.rekeyed for output in inputs),
        )

    def _then(self, node: Node, **changes: Any) -> Stream[Any, Any]:
        """Returns the stream behind a node, with the serdes of this one except for ``changes``."""
        return streams.Stream(self._internals.then(node, **changes))


def _common(serdes: Iterable[Serde[Any] | None]) -> Serde[Any] | None:
    """Returns the serde that all inputs have, None if they differ."""
    first, *others = serdes
    return first if all((s and s.name) == (first and first.name) for s in others) else None
