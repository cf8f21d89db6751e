"""What every node of a plan has, and the plan itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeVar

from millstream.core.frozen import Frozen
from millstream.errors import TopologyError, suggestion
from millstream.state.spec import StoreSpec

Edge = Literal["stream", "table", "none"]
N = TypeVar("N", bound="Node")


class Node(Frozen, kw_only=True):
    """One operator of a plan. Nodes never change; they refer to their parents, and to nothing below them.

    Attributes:
        name: Unique in the plan, given by the user or derived from the place in the flow.
        at: The user's line that made it.
    """

    name: str
    at: str = "?"

    edge: ClassVar[Edge] = "stream"
    """What comes out: records of a stream, changes of a table, or nothing."""
    changes_key: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes whose output this one reads, left to right."""
        parent = getattr(self, "parent", None)
        return () if parent is None else (parent,)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that this node owns."""
        store = getattr(self, "store", None)
        return () if store is None else (store,)

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The names of stores of other nodes that this one reads or writes."""
        return ()

    @property
    def kind(self) -> str:
        """The operator's name in the vocabulary of the DSL: ``map-values``, ``stream-stream-join``."""
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in type(self).__name__).lstrip("-")


class Plan:
    """A whole topology: every node, in the order in which the user's calls made them.

    The order matters: it is the order of children, and so the order in which their outputs come.
    """

    __slots__ = ("application_id", "by_name", "nodes")

    def __init__(self, application_id: str, nodes: tuple[Node, ...]) -> None:
        self.application_id = application_id
        self.nodes = nodes
        self.by_name: dict[str, Node] = {node.name: node for node in nodes}

    def children(self, node: Node) -> list[Node]:
        """The nodes that read a node's output, in order; each once."""
        return [n for n in self.nodes if any(p is node for p in n.parents)]

    def of_type(self, kind: type[N]) -> Iterator[N]:
        """All nodes of a class."""
        return (n for n in self.nodes if isinstance(n, kind))

    def store(self, name: str) -> tuple[Node, StoreSpec]:
        """The owner and the specification of a store."""
        found = {spec.name: (node, spec) for node in self.nodes for spec in node.stores}
        if name not in found:
            known = sorted(found)
            raise TopologyError(
                f"there is no store {name!r}",
                hint=suggestion(name, known) or f"the stores are: {', '.join(known) or 'none'}",
            )
        return found[name]
