"""Draws a topology as a self-contained SVG image, for notebooks and web pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal

Kind = Literal["operator", "store", "topic"]

_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 40, 24, 44, 12
_CHARACTER = 7.4
_FONT = 'font-family="sans-serif" font-size="12"'
_ARROW = (
    '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    '<path d="M0,0 L7,3 L0,6 z" fill="#667"/></marker></defs>'
)
_FILLS: Mapping[Kind, str] = {"operator": "#eef3fb", "store": "#fdf3dc", "topic": "#e6f5ea"}


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic, an operator or a store.

    Attributes:
        id: Its short name in the graph.
        kind: Its kind.
        lines: Its text.
    """

    id: str
    kind: Kind
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Records that flow from one shape to another; without ``flows``, a store and the operator that uses it."""

    source: str
    target: str
    flows: bool = True
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A sub-topology."""

    index: int
    title: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """The contents of a picture: the sub-topologies, the topics outside of them, and the links, in a fixed order."""

    groups: tuple[Group, ...]
    topics: tuple[Shape, ...]
    links: tuple[Link, ...]


def draw(graph: Graph) -> str:
    """Draws a graph from top to bottom, each shape below the shapes whose records it reads."""
    shapes = {
        shape.id: shape for shape in (*graph.topics, *(shape for group in graph.groups for shape in group.shapes))
    }
    rows = _rows(shapes, graph.links)
    boxes = _boxes(shapes, rows)
    width = max((x + wide for x, _y, wide in boxes.values()), default=0) + _MARGIN
    height = len(rows) * (_HEIGHT + _GAP_Y) - (_GAP_Y if rows else 0) + 2 * _MARGIN
    size = f'width="{width:.0f}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height}" {_FONT}>',
        _ARROW,
        f'<rect {size} fill="white"/>',
        *(_line(link, boxes) for link in graph.links),
        *(_box(shape, boxes[shape.id]) for shape in shapes.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rows(shapes: Mapping[str, Shape], links: Iterable[Link]) -> list[list[str]]:
    """Returns the shapes by their distance from the top; links that close a cycle do not count."""
    below: dict[str, list[str]] = {name: [] for name in shapes}
    for link in links:
        below[link.source].append(link.target)
    order: list[str] = []
    state: dict[str, bool] = {}  # False while a shape is being visited
    back: set[tuple[str, str]] = set()
    for root in shapes:
        stack = [(root, iter(below[root]))] if root not in state else []
        state.setdefault(root, False)
        while stack:
            name, children = stack[-1]
            child = next(children, None)
            if child is None:
                stack.pop()
                state[name] = True
                order.append(name)
            elif child not in state:
                state[child] = False
                stack.append((child, iter(below[child])))
            elif not state[child]:
                back.add((name, child))
    rank = dict.fromkeys(shapes, 0)
    for name in reversed(order):
        for child in below[name]:
            if (name, child) not in back:
                rank[child] = max(rank[child], rank[name] + 1)
    rows: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for name in shapes:
        rows[rank[name]].append(name)
    return _sorted_rows(rows, links)


def _sorted_rows(rows: list[list[str]], links: Iterable[Link]) -> list[list[str]]:
    """Sorts each row by the average position of the shapes above."""
    above: dict[str, list[str]] = {}
    for link in links:
        above.setdefault(link.target, []).append(link.source)
    places: dict[str, float] = {}
    sorted_rows = []
    for row in rows:
        middle = {
            name: sum(near) / len(near) if (near := [places[n] for n in above.get(name, ()) if n in places]) else number
            for number, name in enumerate(row)
        }
        ordered = sorted(row, key=middle.__getitem__)
        places |= {name: float(number) for number, name in enumerate(ordered)}
        sorted_rows.append(ordered)
    return sorted_rows


def _boxes(shapes: Mapping[str, Shape], rows: list[list[str]]) -> dict[str, tuple[float, float, float]]:
    """Returns left edge, upper edge and width of each shape; the rows are centred."""
    wide = {name: max(map(len, shape.lines)) * _CHARACTER + 24 for name, shape in shapes.items()}
    widths = [sum(wide[name] + _GAP_X for name in row) - _GAP_X for row in rows]
    boxes = {}
    for number, row in enumerate(rows):
        x = _MARGIN + (max(widths) - widths[number]) / 2
        for name in row:
            boxes[name] = (x, float(_MARGIN + number * (_HEIGHT + _GAP_Y)), wide[name])
            x += wide[name] + _GAP_X
    return boxes


def _box(shape: Shape, box: tuple[float, float, float]) -> str:
    x, y, wide = box
    radius = {"operator": 4, "store": 10, "topic": 20}[shape.kind]
    first = y + _HEIGHT / 2 + 4 - 8 * (len(shape.lines) - 1)
    texts = "".join(
        f'<text x="{x + wide / 2:.1f}" y="{first + 16 * number:.1f}" text-anchor="middle" fill="#223">'
        f"{escape(line)}</text>"
        for number, line in enumerate(shape.lines)
    )
    return (
        f'<g><title>{escape(f"{shape.kind} {shape.lines[0]}")}</title><rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" '
        f'height="{_HEIGHT}" rx="{radius}" fill="{_FILLS[shape.kind]}" stroke="#667"/>{texts}</g>'
    )


def _line(link: Link, boxes: Mapping[str, tuple[float, float, float]]) -> str:
    (x1, y1, wide1), (x2, y2, wide2) = boxes[link.source], boxes[link.target]
    start, end = (x1 + wide1 / 2, y1 + _HEIGHT), (x2 + wide2 / 2, y2)
    middle = (start[1] + end[1]) / 2
    style = ' stroke-dasharray="4 3"' if link.dashed else ""
    arrow = ' marker-end="url(#arrow)"' if link.flows else ""
    return (
        f'<path d="M{start[0]:.1f},{start[1]:.1f} C{start[0]:.1f},{middle:.1f} {end[0]:.1f},{middle:.1f} '
        f'{end[0]:.1f},{end[1]:.1f}" fill="none" stroke="#667"{style}{arrow}/>'
    )
