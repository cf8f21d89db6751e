"""The columns of a result and their names."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.core.frozen import Frozen
from millstream.sql.syntax import tree


class Item(Frozen):
    """A select item: its name in the result, and its expression with the names of rows."""

    name: str
    expression: tree.Expression
    at: tree.Position


class NameGenerator:
    """Gives names to expressions without an alias: KSQL_COL_0, KSQL_COL_1, …; a field of a struct has its own name."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._next = 0
        self._counts: dict[str, int] = {}  # of fields: the last number that was tried, so that many stay linear

    def name(self, expression: tree.Expression) -> str:
        """Returns the name of a column that holds an expression."""
        if isinstance(expression, tree.ColumnRef):
            return expression.name
        if isinstance(expression, tree.Dereference):
            return self._unused(expression.field)
        while True:
            name = f"KSQL_COL_{self._next}"
            self._next += 1
            if name not in self._taken:
                return name

    def _unused(self, stem: str) -> str:
        count = self._counts.get(stem, 0)
        name = f"{stem}_{count}" if count else stem
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count
        self._taken.add(name)
        return name
