"""The base class of plan nodes, with the declarations that analyses read, and the plan itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from millstream.core.frozen import Frozen
from millstream.errors import TopologyError, suggestion
from millstream.plan.functions import Function
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

Edge: TypeAlias = Literal["stream", "table", "none"]
Role: TypeAlias = Literal["source", "processor", "sink", "exchange", "global", "hidden"]
WhenMaterialized: TypeAlias = Literal["always", "on_demand", "if_used"]
Edges: TypeAlias = Mapping[str, tuple[Serde[Any] | None, Serde[Any] | None]]
Definitions: TypeAlias = Mapping[str, Mapping[str, str]]
N = TypeVar("N", bound="Node")


class Node(Frozen, kw_only=True):
    """One operator of a plan. Nodes are immutable; they refer to their parents, never to their children.

    The class attributes and properties declare everything that the optimizer, the sub-topologies, the comparison of
    plans and `describe` must know of an operator. The defaults are safe: an operator that overrides nothing runs in a
    task, and no optimization touches it.

    Attributes:
        name: Unique in the plan, given by the user or derived from the position in the flow.
        at: The user's line that added the operator.
    """

    name: str
    at: str = "?"

    edge: ClassVar[Edge] = "stream"
    """The output: records of a stream, changes of a table, or none."""
    role: ClassVar[Role] = "processor"
    """How `describe` shows the node: as a Kafka Streams source, processor or sink; as a sink and a source
    (``exchange``); as a sub-topology of its own (``global``); or not at all (``hidden``)."""
    pure: ClassVar[bool] = False
    """The output depends on the record alone. Pure operators can run where topics are read, outside of tasks."""
    has_effects: ClassVar[bool] = False
    """The operator calls a function for its side effects, and so exactly once for each record."""
    needs_order: ClassVar[bool] = False
    """Records of several topics must arrive in order, which only a task ensures."""
    keeps_records: ClassVar[bool] = False
    """Records pass unchanged or are dropped, so a repartition may move from below the operator to above it."""
    one_to_one: ClassVar[bool] = False
    """Each record that is not dropped gives one record: the numbers of records follow from each other."""
    changes_key: ClassVar[bool] = False
    """Records with equal output keys may be in different partitions."""
    key_options: ClassVar[tuple[str, ...]] = ()
    """The fields that determine the new key."""
    groups: ClassVar[bool] = False
    """The store has one row for all records of a key."""
    holds_input: ClassVar[bool] = False
    """The stores contain input records, so the rows do not depend on the operator's function."""
    materialized: ClassVar[WhenMaterialized] = "always"
    """When the stores exist: ``always``; if the user named the store or an operator looks rows up (``on_demand``); if
    an operator uses the store (``if_used``)."""
    takes_old_values: ClassVar[bool] = False
    """Old values of the parents are used, and sent on, whenever the parents have them."""
    sends_messages: ClassVar[bool] = False
    """The output is internal messages, which may have a null key, instead of the user's records."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes whose output this node reads, left to right."""
        parent = getattr(self, "parent", None)
        return () if parent is None else (parent,)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that this node owns."""
        store = getattr(self, "store", None)
        return () if store is None else (store,)

    @property
    def reads_stores(self) -> tuple[str, ...]:
        """The names of other nodes' stores that this node reads or writes."""
        return ()

    @property
    def old_value_stores(self) -> tuple[StoreSpec, ...]:
        """The stores, of `stores`, that exist only if this node sends old values."""
        return ()

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The tables whose rows this node looks up; it runs in one sub-topology with all but global tables."""
        return ()

    @property
    def rows_from(self) -> tuple[Node, ...]:
        """The tables from which a look-up in this table computes its row; empty if it reads a store of its own."""
        return ()

    @property
    def needs_old_values_of(self) -> tuple[Node, ...]:
        """The parents that must send the old value of a row with each change."""
        return ()

    @property
    def old_values_from(self) -> tuple[Node, ...]:
        """The parents from whose old values this table computes its own; empty if it reads them from its store."""
        return ()

    @property
    def needs_null_keys(self) -> bool:
        """Whether repartitions above this node must pass records without a key."""
        return False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that this node reads or writes, by name; internal topics without the application id."""
        return ()

    @property
    def pattern(self) -> str | None:
        """The regular expression of the topics that this node reads."""
        return None

    @property
    def topic_function(self) -> Function | None:
        """The function that returns the topic of each record that this node writes."""
        return None

    @property
    def kind(self) -> str:
        """The operator's name in the vocabulary of the DSL: ``map-values``, ``stream-stream-join``."""
        return hyphenated(type(self).__name__)


def hyphenated(class_name: str) -> str:
    """Returns the name of a class in lower case with hyphens.

    >>> hyphenated("MapValues")
    'map-values'
    """
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in class_name).lstrip("-")


class Plan:
    """A whole topology: every node, in the order in which the user's calls added them.

    The order determines the order of children, and so the order of their outputs.

    Attributes:
        application_id: The application id.
        nodes: The nodes.
        edges: The serdes of the keys and values that nodes send, by the name of the node, None if unknown: for
            descriptions. Processes that run the plan do not get them.
        definitions: What a front end has defined, by name, each with its facts: they are recorded with the plan, so
            that a comparison can name them. Processes that run the plan do not get them.
    """

    __slots__ = ("application_id", "definitions", "edges", "nodes")

    def __init__(
        self,
        application_id: str,
        nodes: tuple[Node, ...],
        edges: Edges | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        self.application_id = application_id
        self.nodes = nodes
        self.edges: Edges = edges or {}
        self.definitions: Definitions = definitions or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, (self.application_id, self.nodes)

    def with_nodes(self, nodes: tuple[Node, ...]) -> Plan:
        """Returns the plan with other nodes, as an optimisation does."""
        return Plan(self.application_id, nodes, self.edges, self.definitions)

    def of_type(self, kind: type[N]) -> Iterator[N]:
        """All nodes of a class."""
        return (node for node in self.nodes if isinstance(node, kind))

    def store(self, name: str) -> tuple[Node, StoreSpec]:
        """Returns the owner and the specification of a store.

        Raises:
            TopologyError: The plan has no store of this name.
        """
        stores = {spec.name: (node, spec) for node in self.nodes for spec in node.stores}
        if name not in stores:
            names = sorted(stores)
            raise TopologyError(
                f"there is no store {name!r}",
                hint=suggestion(name, names) or f"the stores are: {', '.join(names) or 'none'}",
            )
        return stores[name]
