"""Describes a topology: as Kafka Streams does, as a Mermaid diagram, as a picture, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from millstream.errors import ConfigError, suggestion
from millstream.expr import Expr
from millstream.plan.functions import describe_callable
from millstream.plan.node import Node
from millstream.plan.walk import functions_of
from millstream.stages.contracts import contract_data, contract_text
from millstream.stages.picture import Graph, Group, Kind, Link, Shape, draw
from millstream.stages.schemas import schema_data, schema_text, serdes_on
from millstream.stages.subtopology import Topology, changelog_topic
from millstream.state.spec import StoreSpec

Format = Literal["text", "mermaid", "svg", "json"]
Type: TypeAlias = Literal["source", "processor", "sink"]


def describe(topology: Topology, format: Format = "text") -> str:
    """Describes a topology.

    - ``text``: Kafka Streams' own form, for people and existing visualisers, with Millstream's stable names. A
      repartition is a sink in the sub-topology that writes its topic, and a source in the one that reads it. A
      processor shows the stores that it owns and those in which it looks rows up. As in Kafka Streams, names of
      internal topics omit the application id, and stores of global tables are shown at the table only. If a key or a
      value has fields, the section ``Schemas`` has a line for each source, sink and operator: the keys and values that
      it reads, writes or sends.
    - ``mermaid``: a flowchart, with topics, and with stores linked to their operators.
    - ``svg``: the same as a picture, which browsers and notebooks show.
    - ``json``: everything, for programs, always in the same order. ``sub_topologies`` is a list of objects with ``id``,
      ``global``, ``stores`` (each with ``name``, ``kind``, ``key``, ``value``, ``changelog``) and ``nodes``. A node has
      ``name``; ``type`` (source, processor or sink); ``operator``, the name in the plan, and its ``kind``; ``parents``
      and ``children``, by name; ``stores`` and ``global_stores``, by name; ``topics``, by their full names, or
      ``pattern``; ``at``, the user's line; ``functions``, by location, and ``expressions``, as text, each by the
      operator's option; and ``schema``, that of the keys and values that it reads, writes or sends, with ``key`` and
      ``value``. Stores have ``key_schema`` and ``value_schema``. A schema is null if nothing is known, or an object
      with ``serde``, ``format``, ``subject``, ``type``, ``nullable``, ``name``, ``doc``, ``tags``, ``fields`` and
      ``items``; each of ``fields`` has the same, with its own ``name``.

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
        ConfigError: The format does not exist.
    """
    writers = {"text": _text, "mermaid": _mermaid, "svg": _svg, "json": _json}
    if format not in writers:
        hint = suggestion(str(format), writers) or f"the formats are: {', '.join(writers)}"
        raise ConfigError(f"describe: there is no format {format!r}", hint=hint)
    return writers[format](topology)


# ----- elements --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """A node as a Kafka Streams source, processor or sink."""

    name: str
    type: Type
    node: Node
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    global_stores: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are read or written by name."""
        return () if self.type == "processor" else self.node.topics

    @property
    def chosen_by(self) -> str | None:
        """The pattern of the topics, or the location of the function that returns them, if they have no fixed names."""
        function = self.node.topic_function
        return self.node.pattern if function is None else function.location


@dataclass(frozen=True, slots=True)
class _Part:
    index: int
    elements: tuple[_Element, ...]
    stores: tuple[StoreSpec, ...]
    is_global: bool = False


class _Layout:
    """The elements of a topology, with their names, parents and children."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._taken = {node.name for node in topology.plan.nodes}
        self._children: dict[Node, dict[Node, None]] = {}
        self._reader: dict[Node, str] = {}
        self._writer: dict[Node, str] = {}
        for node in topology.plan.nodes:
            if node.role == "exchange":
                self._writer[node] = self._fresh(f"{node.name}-sink")
            if node.role in {"exchange", "global"}:
                self._reader[node] = self._fresh(f"{node.name}-source")
            for parent in node.parents:
                self._children.setdefault(parent, {})[node] = None

    def parts(self) -> list[_Part]:
        """Returns the sub-topologies, followed by the global tables."""
        parts = []
        for part in self.topology.parts:
            inside = set(part.nodes)
            elements = [
                element
                for node in self.topology.plan.nodes
                for element in self._elements(node, own=node in inside, read=node in part.sources)
            ]
            parts.append(_Part(part.index, tuple(elements), self._stores(*part.nodes)))
        for index, table in enumerate(self.topology.global_tables, start=len(parts)):
            reader = self._reader[table]
            source = _Element(reader, "source", table, children=(table.name,))
            keeper = _Element(table.name, "processor", table, parents=(reader,), stores=(table.store.name,))
            parts.append(_Part(index, (source, keeper), self._stores(table), is_global=True))
        return parts

    def _elements(self, node: Node, *, own: bool, read: bool) -> Iterator[_Element]:
        below = tuple(self._writer.get(child, child.name) for child in self._children.get(node, ()))
        above = tuple(dict.fromkeys(self._reader.get(parent, parent.name) for parent in node.parents))
        if node.role == "exchange":
            if own:
                yield _Element(self._writer[node], "sink", node, parents=above)
            if read:
                yield _Element(self._reader[node], "source", node, children=below)
        elif own and node.role == "source":
            yield _Element(node.name, "source", node, children=below)
        elif own and node.role == "sink":
            yield _Element(node.name, "sink", node, parents=above)
        elif own and node.role == "processor":
            yield _Element(node.name, "processor", node, above, below, *self._used(node))

    def _used(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the stores that an operator owns, shares or looks rows up in, and those of global tables."""
        names = [spec.name for spec in self._stores(node)] + [*node.reads_stores]
        global_names: list[str] = []
        for table in node.looks_up:
            (global_names if table.role == "global" else names).extend(_stores_of_rows(table))
        return tuple(dict.fromkeys(names)), tuple(global_names)

    def _stores(self, *nodes: Node) -> tuple[StoreSpec, ...]:
        return tuple(spec for node in nodes for spec in self.topology.facts.stores_of(node))

    def _fresh(self, name: str) -> str:
        count, stem = 1, name
        while name in self._taken:
            count += 1
            name = f"{stem}-{count}"
        self._taken.add(name)
        return name


def _stores_of_rows(table: Node) -> list[str]:
    """Returns the stores that a look-up in a table reads."""
    store: StoreSpec | None = getattr(table, "store", None)
    own = [] if store is None else [store.name]
    return own + [name for parent in table.rows_from for name in _stores_of_rows(parent)]


# ----- Kafka Streams' text ---------------------------------------------------------------------------------------


def _text(topology: Topology) -> str:
    lines = ["Topologies:\n "]
    parts = _Layout(topology).parts()
    for part in parts:
        title = " for global store (will not generate tasks)" if part.is_global else ""
        lines.append(f"  Sub-topology: {part.index}{title}\n")
        lines.extend(f"    {_text_of(element)}\n" for element in part.elements)
        lines.append("" if part.is_global else "\n")
    edges = ((element.name, element.node) for part in parts for element in part.elements)
    return "".join((*lines, schema_text(edges, topology.plan), contract_text(topology.plan)))


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
        # No topic has a name with spaces, so these are shapes of their own.
        wording = "matching {}" if element.type == "source" else "chosen by {}"
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
    """Returns the name, and the kind below it if the name does not contain it."""
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
    lines.extend(
        f"  {link.source} {'-.-' if link.dashed else arrows[link.flows]} {link.target}" for link in graph.links
    )
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Escapes text inside the quotes of a label, where Mermaid reads HTML, Markdown and its own character codes."""
    return "".join(f"#{ord(c)};" if c in '"#&<>`\\' else c for c in text)


# ----- JSON ------------------------------------------------------------------------------------------------------


def _json(topology: Topology) -> str:
    import json  # noqa: PLC0415  (rarely needed)

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
                    "key_schema": schema_data(spec.key),
                    "value_schema": schema_data(spec.value),
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
    prefix = f"{topology.application_id}-" if node.role == "exchange" else ""
    functions = list(functions_of(node))
    key, value = serdes_on(node, topology.plan)
    return {
        "name": element.name,
        "type": element.type,
        "operator": node.name,
        "kind": node.kind,
        "parents": list(element.parents),
        "children": list(element.children),
        "stores": list(element.stores),
        "global_stores": list(element.global_stores),
        "topics": [f"{prefix}{topic}" for topic in element.topics],
        "pattern": node.pattern,
        "at": node.at,
        "schema": {
            "key": schema_data(key, has_subject=element.type != "processor"),
            "value": schema_data(value, has_subject=element.type != "processor"),
        },
        "functions": {name: describe_callable(target) for name, target in functions if not isinstance(target, Expr)},
        "expressions": {name: str(target) for name, target in functions if isinstance(target, Expr)},
        **contract_data(node),
    }
