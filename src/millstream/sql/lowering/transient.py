"""Adds the operators of a transient query to an application, and reads its rows."""

from __future__ import annotations

from typing import Any

from millstream.core.records import Windowed
from millstream.dsl.table import Table
from millstream.serde import Serde
from millstream.sql.catalog.sources import WINDOW_BOUNDS, WINDOWSTART, Column
from millstream.sql.formats import RowSerde
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.planner.steps import PlannedQuery, Project
from millstream.sql.syntax import tree
from millstream.sql.types import BOOLEAN

_TOMBSTONE = "TOMBSTONE"


def add_transient(lowering: QueryLowering, planned: PlannedQuery, topic: str) -> Serde[Any]:
    """Adds a transient query, which writes its rows to a topic; returns the serde of their values.

    A value is a dict of ``C0``, ``C1``, … with the columns in the order of the select list, and ``TOMBSTONE``; keys
    are null.
    """
    node = lowering.node(planned.root)
    stream = node.to_stream() if isinstance(node, Table) else node
    columns = [Column(f"C{index}", column.type) for index, column in enumerate(planned.value)]
    serde = RowSerde([*columns, Column(_TOMBSTONE, BOOLEAN)], is_key=False)
    rows = stream.map(_ResultRow(planned, is_table=isinstance(node, Table)), key=bytes, value=serde)
    rows.filter(_is_some).to(topic)
    return serde


def result_values(row: dict[str, Any]) -> tuple[tuple[Any, ...], bool]:
    """Returns the values of a row that `add_transient` writes, and whether it is a tombstone."""
    *values, tombstone = row.values()
    return tuple(values), bool(tombstone)


class _ResultRow:
    """Makes the row of a result; a row of a table that vanished keeps the columns of its key."""

    def __init__(self, planned: PlannedQuery, *, is_table: bool) -> None:
        root = planned.root
        assert isinstance(root, Project)
        keys = {column.name: index for index, column in enumerate(root.key)}
        self.names = tuple(name for name, _expression in root.items)
        self.key_parts: tuple[int | str | None, ...] = tuple(
            keys.get(item.name, item.name if item.name in WINDOW_BOUNDS else None)
            if isinstance(item, tree.ColumnRef)
            else None
            for _name, item in root.items
        )
        self.width = len(root.key)
        self.is_table = is_table

    def __call__(self, key: Any, row: dict[str, Any] | None) -> tuple[None, dict[str, Any] | None]:
        """Returns the row, without a key; no row for a null of a stream."""
        if row is not None:
            values = [row[name] for name in self.names]
        elif self.is_table:
            values = self._tombstone(key)
        else:
            return None, None
        result = {f"C{index}": value for index, value in enumerate(values)}
        result[_TOMBSTONE] = row is None
        return None, result

    def _tombstone(self, key: Any) -> list[Any]:
        window = key if isinstance(key, Windowed) else None
        plain = key.key if window is not None else key
        parts = (plain,) if self.width == 1 else plain
        values: list[Any] = []
        for part in self.key_parts:
            if part is None:
                values.append(None)
            elif isinstance(part, int):
                values.append(parts[part])
            else:
                values.append(None if window is None else window.start if part == WINDOWSTART else window.end)
        return values


def _is_some(_key: Any, row: dict[str, Any] | None) -> bool:
    return row is not None
