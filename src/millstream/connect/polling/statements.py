"""The statements with which a table or a query is polled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# ruff: noqa: S608  (statements consist of quoted names and of the user's own query)


class Statements:
    """The statements of one table or query.

    Args:
        settings: The settings of the source.
        split: The table; not used for a query.
        mark: How the driver writes a parameter.
    """

    def __init__(self, settings: Mapping[str, Any], split: str, mark: str) -> None:
        self._quotes = settings["quote.sql.identifiers"] == "always"
        self._mark = mark
        self._escapes = mark == "%s"
        query = settings["query"] and self._escaped(settings["query"])
        self._from = f"({query}) polled" if query else ".".join(map(self._name, split.split(".")))
        self._rows: int = settings["batch.max.rows"]
        self._limit = "LIMIT {}" if settings["row.limit"] == "limit" else "FETCH FIRST {} ROWS ONLY"
        increment, time = settings["incrementing.column.name"], settings["timestamp.column.name"]
        self.increment = None if increment is None else self._name(increment)
        self.time = None if time is None else self._name(time)

    def _name(self, name: str) -> str:
        return self._escaped('"' + name.replace('"', '""') + '"' if self._quotes else name)

    def _escaped(self, text: str) -> str:
        """Returns text in which the driver takes no percent sign for a parameter."""
        return text.replace("%", "%%") if self._escapes else text

    def without_parameters(self, statement: str) -> str:
        """Returns a statement without parameters, as the driver takes it."""
        return statement.replace("%%", "%") if self._escapes else statement

    def sample(self) -> str:
        """Reads a row, for the names of the columns."""
        return f"SELECT * FROM {self._from} " + self._first(1)

    def nulls(self) -> str:
        """Finds a row that a poll would never see."""
        columns = [column for column in (self.time, self.increment) if column]
        return f"SELECT 1 FROM {self._from} WHERE {' OR '.join(f'{name} IS NULL' for name in columns)} " + self._first(
            1
        )

    def highest(self) -> str:
        """Reads the greatest value of the incrementing column."""
        return f"SELECT max({self.increment}) FROM {self._from}"

    def increments(self, *, begins: bool) -> str:
        """Reads rows up to a value of the incrementing column, and after another one unless it begins."""
        after = "" if begins else f" AND {self.increment} > {self._mark}"
        where = f"{self.increment} <= {self._mark}{after}"
        return f"SELECT * FROM {self._from} WHERE {where} ORDER BY {self.increment} " + self._first(self._rows)

    def times(self, *, begins: bool) -> str:
        """Reads rows after a time, in its order, or all of them. The number of rows is not limited."""
        where = f"{self.time} IS NOT NULL" if begins else f"{self.time} > {self._mark}"
        return f"SELECT * FROM {self._from} WHERE {where} ORDER BY {self.time}"

    def times_and_increments(self, *, begins: bool) -> str:
        """Reads rows after a time and, of the same time, after a value of the incrementing column."""
        mark = self._mark
        same = f"({self.time} = {mark} AND {self.increment} > {mark})"
        known = f"{self.time} IS NOT NULL AND {self.increment} IS NOT NULL"
        where = known if begins else f"{self.time} > {mark} OR {same}"
        order = f"ORDER BY {self.time}, {self.increment} "
        return f"SELECT * FROM {self._from} WHERE {where} {order}" + self._first(self._rows)

    def _first(self, rows: int) -> str:
        return self._limit.format(rows)
