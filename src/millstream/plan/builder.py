"""Collects the nodes of a topology while the user's calls are made, and gives each its name.

Names are stable: a node is named after the topics and the stateful operators that it comes from, and after what it
does; stateless operators leave no trace in the names below them. So adding a filter, or an operator elsewhere,
renames nothing that has state.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Container
from typing import Any, TypeVar

from millstream.config import Config
from millstream.core.callsite import caller
from millstream.core.names import check_name
from millstream.errors import TopologyError
from millstream.expr import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    DataType,
    Expr,
    schema_of,
    type_of,
)
from millstream.plan.analysis import Facts
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


class Builder:
    """The topology under construction."""

    def __init__(self, application_id: str, config: Config) -> None:
        self.application_id = application_id
        self.config = config
        self.nodes: list[Node] = []
        self._names: dict[str, str] = {}
        self._stores: dict[str, str] = {}
        self._lineage: dict[Node, str] = {}
        self._topics: dict[str, Node] = {}
        self._tables: set[str] = set()
        self._shared: dict[Node, Repartition] = {}

    # ----- nodes -----------------------------------------------------------------------------------------------

    def add(self, node: N, lineage: str | None = None) -> N:
        """Adds a node. Its lineage, what nodes below are named after, is its first parent's unless given."""
        self.nodes.append(node)
        for spec in node.stores:
            self._claim_store(spec.name, node)
        self._lineage[node] = lineage or (self._lineage[node.parents[0]] if node.parents else node.name)
        if self.config["ensure.explicit.internal.resource.naming"]:
            for kept in Facts(self.plan()).kept:
                if not any(spec.named for spec in kept.stores):
                    self._explicit("store", kept.name)
        return node

    def mark(self) -> tuple[Any, ...]:
        """Remembers the topology as it is, for `undo`."""
        dicts = (self._names, self._stores, self._lineage, self._topics)
        return (len(self.nodes), [dict(d) for d in dicts], set(self._tables))

    def undo(self, mark: tuple[Any, ...]) -> None:
        """Goes back to what was remembered."""
        count, (self._names, self._stores, self._lineage, self._topics), self._tables = mark
        del self.nodes[count:]

    def plan(self) -> Plan:
        """The topology as it is now."""
        return Plan(self.application_id, tuple(self.nodes))

    def lineage(self, *nodes: Node) -> str:
        """What a node below these is named after."""
        for node in nodes:
            if node not in self._lineage:
                raise TopologyError(
                    f"{node.name!r}, made at {node.at}, belongs to another application",
                    hint="what is joined or merged must come from one App",
                )
        return "-".join(dict.fromkeys(self._lineage[n] for n in nodes))

    def name(self, given: str | None, kind: str, *parents: Node, base: str | None = None) -> str:
        """Returns the name of a new node: the user's if given, else one that tells where in the flow it is."""
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
        name = _free(shorten(f"{base}-{kind}" if base else kind), self._names)
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
        """Adds a source, or returns the one that already reads just these topics in just this way."""
        for topic in node.topics:
            owner = self._topics.get(topic)
            if owner is None:
                continue
            if isinstance(owner, Source) and topic not in self._tables and _same_source(owner, node):
                self._names.pop(node.name, None)
                return owner
            raise TopologyError(
                f"topic {topic!r} is already read, at {owner.at}, in another way",
                hint="read a topic once, and use the stream or table that this gave as often as needed",
            )
        for topic in node.topics:
            self._topics[topic] = node
        for other in self.nodes:
            if isinstance(other, GlobalTable):
                _refuse_match(node, other)
        return self.add(node, lineage=shorten("-".join(node.topics)) if node.topics else node.name)

    def reserve_topic(self, topic: str, node: Source | GlobalTable) -> None:
        """Refuses a topic that is already read, as one that becomes a table must be read once only."""
        for other in self.nodes:
            if isinstance(other, Source) and isinstance(node, GlobalTable):
                _refuse_match(other, node)
        if topic in self._topics:
            raise TopologyError(
                f"topic {topic!r} is already read, at {self._topics[topic].at}",
                hint="a topic is a stream, a table or a global table; use table.to_stream() to have both",
            )
        self._topics[topic] = node
        self._tables.add(topic)

    def repartition(self, parent: Node, topic: str, key: Serde[Any], value: Serde[Any], **options: Any) -> Repartition:
        """Adds an exchange through an internal topic."""
        check_name(f"{self.application_id}-{topic}-repartition", "repartition topic")
        for other in self.nodes:
            if isinstance(other, Repartition) and other.topic == topic:
                raise TopologyError(
                    f"there is already a repartition topic named {topic!r}, made at {other.at}",
                    hint="give each grouping and repartition a name of its own",
                )
        name = self.name(None, "repartition", parent, base=topic)
        node = Repartition(name=name, at=caller(), parent=parent, topic=topic, key=key, value=value, **options)
        return self.add(node)

    def shared_by_joins(self, node: Node) -> Repartition | None:
        """The repartition of a stream that an earlier join made."""
        found = self._shared.get(node)
        return found if found in self.nodes else None

    def share_with_joins(self, node: Node, repartition: Node) -> None:
        """Lets later joins of a stream use its repartition."""
        assert isinstance(repartition, Repartition)
        self._shared[node] = repartition

    def topic_name(self, stem: str) -> str:
        """A name for an internal topic, when the user gives none."""
        self._explicit("repartition topic", stem)
        return _free(stem, {n.topic for n in self.nodes if isinstance(n, Repartition)})

    def stem(self, kind: str, *parents: Node) -> str:
        """What the store, the topic and all below a node are named after, if the user names neither."""
        base = shorten(f"{self.lineage(*parents)}-{kind}")
        return _free(base, {name.removesuffix("-store") for name in self._stores})

    def check_explicit(self, stem: str) -> None:
        """Refuses a store without a name of its own, if the configuration asks for names."""
        self._explicit("store", stem)

    def _explicit(self, what: str, stem: str) -> None:
        if self.config["ensure.explicit.internal.resource.naming"]:
            raise TopologyError(
                f"the {what} of {stem!r} has no name of its own",
                hint="ensure.explicit.internal.resource.naming is on: give name=… or store=…",
            )

    # ----- functions and serdes --------------------------------------------------------------------------------

    def serde(self, known: Serde[Any] | None, part: str) -> Serde[Any]:
        """Returns the serde that is known, or the application's default for keys or values."""
        return known if known is not None else serde_for(self.config[f"default.{part}.serde"], part)

    def check_same_keys(self, call: str, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
        """Refuses a join of keys that can never be equal, because their bytes are made differently."""
        mine, theirs = self.serde(left, "key"), self.serde(right, "key")
        if mine.name != theirs.name:
            raise TopologyError(
                f"{call}: the keys on the left are {mine.name}, those on the right {theirs.name}",
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
        """Wraps a user's function; checks an expression against what is known of the data it reads.

        With ``has_record``, the operator can give it the timestamp and the headers of the record.
        """
        function = Function(target, roles, what, has_record=has_record)
        if isinstance(target, Expr):
            type_of(target, _schemas(function.roles, serdes))
        return function

    def result_serde(
        self, declared: Any, function: Function, part: str, **serdes: Serde[Any] | None
    ) -> Serde[Any] | None:
        """The serde of what a function gives: as declared, as annotated, as the expression's type says, or unknown."""
        if declared is not None:
            return serde_for(declared, part)
        if isinstance(function.target, Expr):
            found = _PYTHON_TYPES.get(type_of(function.target, _schemas(function.roles, serdes)))
        else:
            found = annotated_result(function.target)
        return None if found is None else serde_for(found, part)


def _free(stem: str, taken: Container[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return name


def shorten(name: str) -> str:
    """Keeps a derived name within bounds: a long one ends in a digest of its whole."""
    clean = "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "-" for c in name)
    if len(clean) <= _MAX_DERIVED and clean == name:
        return clean
    return f"{clean[: _MAX_DERIVED - 9]}-{zlib.crc32(name.encode()):08x}"


def _same_source(a: Source, b: Source) -> bool:
    return (
        set(a.topics) == set(b.topics)
        and a.key.name == b.key.name
        and a.value.name == b.value.name
        and a.timestamps == b.timestamps
        and a.offset_reset == b.offset_reset
    )


def _schemas(roles: tuple[str, ...], serdes: dict[str, Serde[Any] | None]) -> dict[str, DataType]:
    known = {role: serdes.get(role) for role in roles}
    found = {role: schema_of(object if serde is None else serde.python_type) for role, serde in known.items()}
    return {**found, "timestamp": TIMESTAMP} if "timestamp" in roles else found


def _refuse_match(source: Source, table: GlobalTable) -> None:
    """A global table is read whole, and again when it comes anew: its records must not come as a stream, too."""
    if source.pattern is not None and re.fullmatch(source.pattern, table.topic):
        raise TopologyError(
            f"topic {table.topic!r}, a global table at {table.at}, matches the pattern {source.pattern!r} of a stream "
            f"at {source.at}",
            hint="a topic is a stream, a table or a global table: choose a pattern that it does not match",
        )
