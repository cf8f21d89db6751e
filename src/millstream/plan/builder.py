"""Builds a plan: collects the nodes of a topology, gives each its name, and refuses conflicts.

Every front end builds plans with a `Builder`: each method of the DSL, and each clause of SQL, adds a few nodes. A front
end claims a name, creates a node with it, and adds the node:

    name = builder.name(None, "filter", parent)
    builder.add(Filter(name=name, at=caller(), parent=parent, predicate=builder.function(…)))

Names are stable. A name is derived from the topics and the stateful operators above the node, and from the kind of the
node; stateless operators do not affect the names below them. So adding a filter, or an operator elsewhere, renames no
operator with state.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, TypeVar

from millstream.config import Config
from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.errors import TopologyError
from millstream.expr import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    DataType,
    Expr,
    type_of,
)
from millstream.plan.analysis import PlanFacts
from millstream.plan.contracts import same_contract
from millstream.plan.edges import type_of_values, with_type
from millstream.plan.functions import Function, annotated_result
from millstream.plan.node import Node, Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition
from millstream.serde import Serde, serde_for

N = TypeVar("N", bound=Node)
_MAX_DERIVED = 120
_PYTHON_TYPES: dict[DataType, type] = {
    BOOLEAN: bool,
    INT: int,
    BIGINT: int,
    TIMESTAMP: int,
    DOUBLE: float,
    STRING: str,
    BYTES: bytes,
}


class Snapshot(NamedTuple):
    """The state of a builder at a moment, for `Builder.restore`."""

    nodes: int
    names: dict[str, str]
    stores: dict[str, str]
    lineage: dict[Node, str]
    topics: dict[str, Node]
    tables: frozenset[str]


class Builder:
    """The plan under construction.

    Attributes:
        application_id: The application id, part of the names of internal topics.
        config: The configuration, which contains the default serdes.
        nodes: The nodes so far, in the order of the calls that added them.
        front_ends: What front ends beside the DSL keep with the application, by name.
        definitions: What front ends have defined, for the plan.
    """

    def __init__(self, application_id: str, config: Config) -> None:
        self.application_id = application_id
        self.config = config
        self.nodes: list[Node] = []
        self.front_ends: dict[str, object] = {}
        self.definitions: dict[str, Mapping[str, str]] = {}
        self._names: dict[str, str] = {}
        self._stores: dict[str, str] = {}
        self._lineage: dict[Node, str] = {}
        self._topics: dict[str, Node] = {}
        self._tables: frozenset[str] = frozenset()
        self._shared: dict[Node, Repartition] = {}
        self._edges: dict[Node, tuple[Serde[Any] | None, Serde[Any] | None]] = {}

    # ----- nodes -----------------------------------------------------------------------------------------------

    def add(self, node: N, lineage: str | None = None) -> N:
        """Adds a node.

        Args:
            node: The node; its name comes from `name`.
            lineage: The stem of the names of nodes below it; by default the lineage of its first parent.

        Raises:
            TopologyError: The name of a store is invalid or taken, or is missing where the configuration requires it.
        """
        self.nodes.append(node)
        for spec in node.stores:
            self._claim_store(spec.name, node)
        self._lineage[node] = lineage or (self._lineage[node.parents[0]] if node.parents else node.name)
        if self.config["ensure.explicit.internal.resource.naming"]:
            for table in PlanFacts(self.plan()).kept:
                if table.edge == "table" and not any(spec.named for spec in table.stores):
                    self._explicit("store", table.name)
        return node

    def snapshot(self) -> Snapshot:
        """Returns the current state, for `restore`."""
        return Snapshot(
            len(self.nodes),
            dict(self._names),
            dict(self._stores),
            dict(self._lineage),
            dict(self._topics),
            self._tables,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Returns to an earlier state: a call that raises an error leaves no nodes or names behind."""
        count, self._names, self._stores, self._lineage, self._topics, self._tables = snapshot
        del self.nodes[count:]

    def plan(self) -> Plan:
        """Returns the plan so far."""
        edges = {node.name: self._edges[node] for node in self.nodes if node in self._edges}
        return Plan(self.application_id, tuple(self.nodes), edges, dict(self.definitions))

    def edge(self, node: Node, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        """Records the serdes of the keys and values that a node sends; None if unknown. The first ones count."""
        self._edges.setdefault(node, (key, value))

    def lineage(self, *nodes: Node) -> str:
        """Returns the stem of the names of nodes below these.

        Raises:
            TopologyError: A node belongs to another application.
        """
        for node in nodes:
            if node not in self._lineage:
                raise TopologyError(
                    f"{node.name!r}, made at {node.at}, belongs to another application",
                    hint="joined and merged streams and tables must come from one App",
                )
        return "-".join(dict.fromkeys(self._lineage[node] for node in nodes))

    def name(self, given: str | None, kind: str, *parents: Node, base: str | None = None) -> str:
        """Claims and returns the name of a new node.

        Args:
            given: The user's name, if any.
            kind: The last part of a derived name: ``filter``.
            parents: The nodes whose lineage is the first part of a derived name.
            base: The first part of a derived name, instead of the lineage of parents.

        Raises:
            TopologyError: The user's name is invalid or taken.
        """
        if given is not None:
            check_name(given, "operator")
            if given in self._names:
                raise TopologyError(
                    f"there is already an operator named {given!r}, made at {self._names[given]}",
                    hint="names are unique in a topology; choose another",
                )
            self._names[given] = caller()
            return given
        base = base if base is not None else self.lineage(*parents)
        name = _unused(shorten(f"{base}-{kind}" if base else kind), self._names)
        self._names[name] = caller()
        return name

    def _claim_store(self, name: str, node: Node) -> None:
        check_name(f"{self.application_id}-{check_name(name, 'store')}-changelog", "changelog topic")
        if name in self._stores:
            raise TopologyError(
                f"there is already a store named {name!r}, made at {self._stores[name]}",
                hint="names of stores are unique in a topology; choose another",
            )
        self._stores[name] = node.at

    # ----- topics ----------------------------------------------------------------------------------------------

    def source(self, node: Source) -> Source:
        """Adds a source, or returns the existing one with the same topics, serdes and timestamps."""
        for topic in node.topics:
            owner = self._topics.get(topic)
            if owner is None:
                continue
            if isinstance(owner, Source) and topic not in self._tables and _same_source(owner, node):
                self._names.pop(node.name, None)
                return owner
            raise TopologyError(
                f"topic {topic!r} is already read, at {owner.at}, in another way",
                hint="read a topic once, and use the resulting stream or table as often as needed",
            )
        for topic in node.topics:
            self._topics[topic] = node
        for table in self.plan().of_type(GlobalTable):
            _refuse_match(node, table)
        return self.add(node, lineage=shorten("-".join(node.topics)) if node.topics else node.name)

    def reserve_topic(self, topic: str, node: Source | GlobalTable) -> None:
        """Claims a topic for a table, which must be its only reader.

        Raises:
            TopologyError: Another operator reads the topic.
        """
        if isinstance(node, GlobalTable):
            for source in self.plan().of_type(Source):
                _refuse_match(source, node)
        if topic in self._topics:
            raise TopologyError(
                f"topic {topic!r} is already read, at {self._topics[topic].at}",
                hint="a topic is a stream, a table or a global table; use table.to_stream() to have both",
            )
        self._topics[topic] = node
        self._tables |= {topic}

    def repartition(self, parent: Node, topic: str, key: Serde[Any], value: Serde[Any], **options: Any) -> Repartition:
        """Adds an exchange through an internal topic, whose name is given without the application id."""
        check_name(f"{self.application_id}-{topic}-repartition", "repartition topic")
        for other in self.plan().of_type(Repartition):
            if other.topic == topic:
                raise TopologyError(
                    f"there is already a repartition topic named {topic!r}, made at {other.at}",
                    hint="give each grouping and repartition a name of its own",
                )
        name = self.name(None, "repartition", parent, base=topic)
        node = Repartition(name=name, at=caller(), parent=parent, topic=topic, key=key, value=value, **options)
        return self.add(node)

    def shared_by_joins(self, node: Node) -> Repartition | None:
        """Returns the repartition of a stream that an earlier join added, if any."""
        repartition = self._shared.get(node)
        return repartition if repartition in self.nodes else None

    def share_with_joins(self, node: Node, repartition: Node) -> None:
        """Records the repartition of a stream for later joins."""
        assert isinstance(repartition, Repartition)
        self._shared[node] = repartition

    def topic_name(self, stem: str) -> str:
        """Returns an unused name for an internal topic, if the user gives none."""
        self._explicit("repartition topic", stem)
        return _unused(stem, {repartition.topic for repartition in self.plan().of_type(Repartition)})

    def stem(self, kind: str, *parents: Node) -> str:
        """Returns the stem of the derived names of a node's store and topic, and of nodes below it."""
        base = shorten(f"{self.lineage(*parents)}-{kind}")
        return _unused(base, {name.removesuffix("-store") for name in self._stores})

    def check_explicit(self, stem: str) -> None:
        """Refuses a store that the user did not name, if the configuration requires names."""
        self._explicit("store", stem)

    def _explicit(self, resource: str, stem: str) -> None:
        if self.config["ensure.explicit.internal.resource.naming"]:
            raise TopologyError(
                f"the {resource} of {stem!r} has no name of its own",
                hint="ensure.explicit.internal.resource.naming is on: give name=… or store=…",
            )

    # ----- functions and serdes --------------------------------------------------------------------------------

    def serde(self, declared: Serde[Any] | None, part: str) -> Serde[Any]:
        """Returns a declared serde, or the application's default for keys or values."""
        return declared if declared is not None else serde_for(self.config[f"default.{part}.serde"], part)

    def check_same_keys(self, call: str, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
        """Refuses a join of keys with different serdes: equal keys would have different bytes."""
        left_serde, right_serde = self.serde(left, "key"), self.serde(right, "key")
        if left_serde.name != right_serde.name:
            raise TopologyError(
                f"{call}: the keys on the left are {left_serde.name}, those on the right {right_serde.name}",
                hint="declare the same key=… on both sides; select_key(…, key=…) changes those of a stream, and tables "
                "can be joined by a foreign key (on=…)",
            )

    def function(
        self,
        target: Callable[..., Any] | Expr,
        roles: tuple[str, ...],
        what: str,
        *,
        has_record: bool = False,
        **serdes: Serde[Any] | None,
    ) -> Function:
        """Wraps a user's function; checks an expression against the types of the data that it reads.

        Args:
            target: The function or expression.
            roles: The arguments that the operator passes, as in `Function`.
            what: The function's purpose, for errors: the operator's name, or an option's.
            has_record: The operator can also pass the timestamp and the headers of the record.
            serdes: The serdes of the roles, as far as they are known.
        """
        function = Function(target, roles, what, has_record=has_record)
        if isinstance(target, Expr):
            type_of(target, _schemas(function.roles, serdes))
        return function

    def condition(
        self, target: Callable[..., Any] | Expr, roles: tuple[str, ...], what: str, **serdes: Serde[Any] | None
    ) -> Function:
        """Wraps a condition on a record. An expression must be boolean, as far as its type is known."""
        function = self.function(target, roles, what, has_record=True, **serdes)
        if isinstance(target, Expr):
            found = type_of(target, _schemas(function.roles, serdes))
            if found not in {BOOLEAN, ANY}:
                raise TopologyError(f"{what}: `{target}` is {found}, not a condition", hint="compare it with something")
        return function

    def result_serde(
        self, declared: Any, function: Function, part: str, **serdes: Serde[Any] | None
    ) -> Serde[Any] | None:
        """Returns the serde of a function's result: declared, annotated or of the expression's type; else None."""
        if declared is not None:
            return serde_for(declared, part)
        if isinstance(function.target, Expr):
            computed = type_of(function.target, _schemas(function.roles, serdes))
            result = _PYTHON_TYPES.get(computed)
            if result is None:
                default = self.serde(None, part)
                typed = with_type(default, computed)
                return None if typed is default else typed
        else:
            result = annotated_result(function.target)
        return None if result is None else serde_for(result, part)


def _unused(stem: str, taken: Container[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return name


def shorten(name: str) -> str:
    """Limits the length of a derived name: a long name is cut and ends in a digest of the whole."""
    clean = "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "-" for c in name)
    if len(clean) <= _MAX_DERIVED and clean == name:
        return clean
    return f"{clean[: _MAX_DERIVED - 9]}-{zlib.crc32(name.encode()):08x}"


def _same_source(a: Source, b: Source) -> bool:
    return (
        set(a.topics) == set(b.topics)
        and a.key.name == b.key.name
        and a.value.name == b.value.name
        and all(_same_schema(getattr(a, part), getattr(b, part)) for part in ("key", "value"))
        and a.timestamps == b.timestamps
        and a.offset_reset == b.offset_reset
        and same_contract(a.contract, b.contract)
    )


def _same_schema(a: Serde[Any], b: Serde[Any]) -> bool:
    return getattr(a, "schema", None) == getattr(b, "schema", None)


def _schemas(roles: tuple[str, ...], serdes: dict[str, Serde[Any] | None]) -> dict[str, DataType]:
    schemas = {role: type_of_values(serdes.get(role)) for role in roles}
    return {**schemas, "timestamp": TIMESTAMP} if "timestamp" in roles else schemas


def _refuse_match(source: Source, table: GlobalTable) -> None:
    """Refuses a pattern that matches the topic of a global table, which no other operator may read."""
    if source.pattern is not None and re.fullmatch(source.pattern, table.topic):
        raise TopologyError(
            f"topic {table.topic!r}, a global table at {table.at}, matches the pattern {source.pattern!r} of a stream "
            f"at {source.at}",
            hint="a topic is a stream, a table or a global table: choose a pattern that it does not match",
        )
