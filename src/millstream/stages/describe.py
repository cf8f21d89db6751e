"""Describes a topology: as Kafka Streams does, as a Mermaid diagram, as a picture, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from millstream.errors import ConfigError, suggestion
from millstream.expr import Expr
from millstream.plan.aggregates import Cogroup
from millstream.plan.fingerprint import kept_stores
from millstream.plan.functions import Function, describe_callable
from millstream.plan.joins import (
    ForeignKeyAnswer,
    ForeignKeyResolve,
    StreamGlobalJoin,
    StreamTableJoin,
    TableTableJoin,
)
from millstream.plan.node import Node
from millstream.plan.process import Store
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition, Sink
from millstream.plan.tables import Suppress
from millstream.plan.walk import functions_of
from millstream.stages.picture import Graph, Group, Kind, Link, Shape, draw
from millstream.stages.subtopology import Topology, changelog_topic
from millstream.state.spec import StoreSpec

Format = Literal["text", "mermaid", "svg", "json"]
Type: TypeAlias = Literal["source", "processor", "sink"]


def describe(topology: Topology, format: Format = "text") -> str:
    """Describes a topology.

    - ``text``: Kafka Streams' own form, for people and existing visualisers, with our stable names in it. A repartition
      is a sink in the sub-topology that writes its topic, and a source in the one that reads it. A processor shows the
      stores that it owns and those in which it looks rows up. As in Kafka Streams, names of internal topics come
      without the application's id, and stores of global tables are shown at the table only.
    - ``mermaid``: a flowchart, with topics, and with stores linked to their operators.
    - ``svg``: the same as a picture, which browsers and notebooks show.
    - ``json``: all of it for programs, always in the same order. ``sub_topologies`` is a list of objects with ``id``,
      ``global``, ``stores`` (each with ``name``, ``kind``, ``key``, ``value``, ``changelog``) and ``nodes``. A node has
      ``name``; ``type`` (source, processor or sink); ``operator``, the name in the plan, and ``kind``, what it does;
      ``parents`` and ``children``, by name; ``stores`` and ``global_stores``, those it uses, by name; ``topics``, their
      whole names, or ``pattern``; ``at``, the user's line; ``functions``, where they are, and ``expressions``, as text,
      by what they are in the operator.

    >>> from millstream import App, value
    >>> app = App("shouting")
    >>> app.stream("words", value=str).filter(value().is_not_null()).to("loud")
    >>> print(describe(app.topology()).rstrip())
    Topologies:
       Sub-topology: 0
        Source: words-source (topics: [words])
          --> words-filter
        Processor: words-filter (stores: [])
          --> loud-sink
          <-- words-source
        Sink: loud-sink (topic: loud)
          <-- words-filter

    Args:
        topology: The topology.
        format: ``text``, ``mermaid``, ``svg`` or ``json``.

    Raises:
        ConfigError: There is no such format.
    """
    writers = {"text": _text, "mermaid": _mermaid, "svg": _svg, "json": _json}
    if format not in writers:
        hint = suggestion(str(format), writers) or f"the formats are: {', '.join(writers)}"
        raise ConfigError(f"describe: there is no format {format!r}", hint=hint)
    return writers[format](topology)


# ----- what is shown ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """A node as Kafka Streams would have it: a source, a processor or a sink."""

    name: str
    type: Type
    node: Node
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    global_stores: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are read or written, as far as they are known by name."""
        if self.type == "processor":
            return ()
        if isinstance(self.node, Repartition):
            return (f"{self.node.topic}-repartition",)
        if isinstance(self.node, Source):
            return self.node.topics
        topic = getattr(self.node, "topic", None)
        return (topic,) if isinstance(topic, str) else ()

    @property
    def chosen_by(self) -> str | None:
        """What stands for topics that have no fixed names: a pattern, or where the function is that names them."""
        if isinstance(self.node, Source):
            return self.node.pattern
        return (
            self.node.topic.location if isinstance(self.node, Sink) and isinstance(self.node.topic, Function) else None
        )


@dataclass(frozen=True, slots=True)
class _Part:
    index: int
    elements: tuple[_Element, ...]
    stores: tuple[StoreSpec, ...]
    is_global: bool = False


class _Layout:
    """The elements of a topology, with their names and with what is above and below them."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.kept = kept_stores(topology.plan, topology.facts)
        self._taken = set(topology.plan.by_name)
        self._children: dict[Node, dict[Node, None]] = {}
        self._reader: dict[Node, str] = {}
        self._writer: dict[Node, str] = {}
        for node in topology.plan.nodes:
            if isinstance(node, Repartition):
                self._writer[node] = self._fresh(f"{node.name}-sink")
            if isinstance(node, Repartition | GlobalTable):
                self._reader[node] = self._fresh(f"{node.name}-source")
            for parent in node.parents:
                self._children.setdefault(parent, {})[node] = None

    def parts(self) -> list[_Part]:
        """The sub-topologies, and behind them the global tables."""
        found = []
        for part in self.topology.parts:
            inside = set(part.nodes)
            elements = [
                element
                for node in self.topology.plan.nodes
                for element in self._elements(node, own=node in inside, read=node in part.sources)
            ]
            found.append(_Part(part.index, tuple(elements), self._stores(*part.nodes)))
        for index, table in enumerate(self.topology.global_tables, start=len(found)):
            reader = self._reader[table]
            source = _Element(reader, "source", table, children=(table.name,))
            keeper = _Element(table.name, "processor", table, parents=(reader,), stores=(table.store.name,))
            found.append(_Part(index, (source, keeper), self._stores(table), is_global=True))
        return found

    def _elements(self, node: Node, *, own: bool, read: bool) -> Iterator[_Element]:
        below = tuple(self._writer.get(child, child.name) for child in self._children.get(node, ()))
        above = tuple(dict.fromkeys(self._reader.get(parent, parent.name) for parent in node.parents))
        if isinstance(node, Repartition):
            if own:
                yield _Element(self._writer[node], "sink", node, parents=above)
            if read:
                yield _Element(self._reader[node], "source", node, children=below)
        elif own and isinstance(node, Source):
            yield _Element(node.name, "source", node, children=below)
        elif own and isinstance(node, Sink):
            yield _Element(node.name, "sink", node, parents=above)
        elif own and not isinstance(node, Store):
            whole = (node.table.store.name,) if isinstance(node, StreamGlobalJoin) else ()
            yield _Element(node.name, "processor", node, above, below, self._used(node), whole)

    def _used(self, node: Node) -> tuple[str, ...]:
        """The stores that an operator owns, those it shares, and those in which it looks rows up."""
        own = [spec.name for spec in self.kept.get(node, ())]
        looked_up = [name for table in _looks_up(node) for name in _rows_of(table)]
        return tuple(dict.fromkeys([*own, *node.reads_stores, *looked_up]))

    def _stores(self, *nodes: Node) -> tuple[StoreSpec, ...]:
        return tuple(spec for node in nodes for spec in self.kept.get(node, ()))

    def _fresh(self, name: str) -> str:
        count, stem = 1, name
        while name in self._taken:
            count += 1
            name = f"{stem}-{count}"
        self._taken.add(name)
        return name


def _looks_up(node: Node) -> tuple[Node, ...]:
    """The tables whose rows an operator looks up when a record comes from elsewhere."""
    if isinstance(node, StreamTableJoin):
        return (node.table,)
    if isinstance(node, TableTableJoin):
        return (node.left, node.right)
    if isinstance(node, ForeignKeyAnswer):
        return (node.right,)
    return (node.left,) if isinstance(node, ForeignKeyResolve) else ()


def _rows_of(table: Node) -> tuple[str, ...]:
    """The stores in which a look-up in a table ends."""
    store: StoreSpec | None = getattr(table, "store", None)
    own = () if store is None else (store.name,)
    if own and not isinstance(table, Suppress):
        return own
    above = table.parents[:1] if isinstance(table, Cogroup) else table.parents
    return (*own, *(name for parent in above for name in _rows_of(parent)))


# ----- Kafka Streams' text ---------------------------------------------------------------------------------------


def _text(topology: Topology) -> str:
    lines = ["Topologies:\n "]
    for part in _Layout(topology).parts():
        title = " for global store (will not generate tasks)" if part.is_global else ""
        lines.append(f"  Sub-topology: {part.index}{title}\n")
        lines.extend(f"    {_text_of(element)}\n" for element in part.elements)
        lines.append("" if part.is_global else "\n")
    return "".join(lines)


def _text_of(element: _Element) -> str:
    head = f"{element.type.capitalize()}: {element.name}"
    below = f"\n      --> {', '.join(element.children) or 'none'}"
    above = f"\n      <-- {', '.join(element.parents) or 'none'}"
    if element.type == "source":
        return f"{head} (topics: {element.chosen_by or _bracketed(element.topics)}){below}"
    if element.type == "sink":
        target = f"extractor class: {element.chosen_by}" if element.chosen_by else f"topic: {element.topics[0]}"
        return f"{head} ({target}){above}"
    return f"{head} (stores: {_bracketed(element.stores)}){below}{above}"


def _bracketed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(names)}]"


# ----- pictures --------------------------------------------------------------------------------------------------


def _graph(topology: Topology) -> Graph:
    parts = _Layout(topology).parts()
    elements = [element for part in parts for element in part.elements]
    ids = {element.name: f"n{index}" for index, element in enumerate(elements)}
    stores = {spec.name: f"s{index}" for index, spec in enumerate(spec for part in parts for spec in part.stores)}
    topics: dict[str, str] = {}
    links: list[Link] = []
    for element in elements:
        own = ids[element.name]
        # No topic has such a name, so that these are nodes of their own.
        wording = "all like {}" if element.type == "source" else "as {} says"
        for topic in (wording.format(element.chosen_by),) if element.chosen_by else element.topics:
            outside = topics.setdefault(topic, f"t{len(topics)}")
            links.append(Link(outside, own) if element.type == "source" else Link(own, outside))
        links.extend(Link(own, ids[child]) for child in element.children)
        links.extend(Link(own, stores[name], flows=False) for name in element.stores if name in stores)
        links.extend(Link(own, stores[name], flows=False, dashed=True) for name in element.global_stores)
    groups = []
    for part in parts:
        shapes = [Shape(ids[element.name], "operator", _label(element)) for element in part.elements]
        shapes += [Shape(stores[spec.name], "store", (_one_line(spec.name),)) for spec in part.stores]
        title = f"Sub-topology {part.index}{' (global)' if part.is_global else ''}"
        groups.append(Group(part.index, title, tuple(shapes)))
    outside_shapes = tuple(Shape(outside, "topic", (_one_line(topic),)) for topic, outside in topics.items())
    return Graph(tuple(groups), outside_shapes, tuple(links))


def _label(element: _Element) -> tuple[str, ...]:
    """The name; the kind below it, where the name does not tell it."""
    name, kind = _one_line(element.name), element.node.kind
    return (name,) if kind in element.name or element.type != "processor" else (name, kind)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _svg(topology: Topology) -> str:
    return draw(_graph(topology))


def _mermaid(topology: Topology) -> str:
    graph = _graph(topology)
    marks: dict[Kind, tuple[str, str]] = {"operator": ("[", "]"), "store": ("[(", ")]"), "topic": ("([", "])")}

    def node(shape: Shape) -> str:
        before, behind = marks[shape.kind]
        return f'{shape.id}{before}"{"<br/>".join(map(_escaped, shape.lines))}"{behind}'

    lines = ["flowchart TD"]
    for group in graph.groups:
        lines.append(f'  subgraph p{group.index}["{group.title}"]')
        lines.extend(f"    {node(shape)}" for shape in group.shapes)
        lines.append("  end")
    lines.extend(f"  {node(shape)}" for shape in graph.topics)
    arrows = {True: "-->", False: "---"}
    lines.extend(f"  {one.source} {'-.-' if one.dashed else arrows[one.flows]} {one.target}" for one in graph.links)
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text inside the quotes of a label, where Mermaid reads HTML, Markdown and its own character codes."""
    return "".join(f"#{ord(c)};" if c in '"#&<>`\\' else c for c in text)


# ----- JSON ------------------------------------------------------------------------------------------------------


def _json(topology: Topology) -> str:
    import json  # noqa: PLC0415  (few programs ask)

    application_id = topology.application_id
    parts = [
        {
            "id": part.index,
            "global": part.is_global,
            "nodes": [_node(topology, element) for element in part.elements],
            "stores": [
                {
                    "name": spec.name,
                    "kind": spec.kind,
                    "key": spec.key.name,
                    "value": spec.value.name,
                    "changelog": changelog_topic(application_id, spec) if spec.logged and not part.is_global else None,
                }
                for spec in part.stores
            ],
        }
        for part in _Layout(topology).parts()
    ]
    return json.dumps({"application_id": application_id, "sub_topologies": parts}, indent=2, sort_keys=True)


def _node(topology: Topology, element: _Element) -> dict[str, Any]:
    node = element.node
    topics = (topology.topic_of(node),) if isinstance(node, Repartition) else element.topics
    found = list(functions_of(node))
    return {
        "name": element.name,
        "type": element.type,
        "operator": node.name,
        "kind": node.kind,
        "parents": list(element.parents),
        "children": list(element.children),
        "stores": list(element.stores),
        "global_stores": list(element.global_stores),
        "topics": list(topics),
        "pattern": node.pattern if isinstance(node, Source) else None,
        "at": node.at,
        "functions": {name: describe_callable(target) for name, target in found if not isinstance(target, Expr)},
        "expressions": {name: str(target) for name, target in found if isinstance(target, Expr)},
    }
