"""Lays out rows that come one by one, so that their lines fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.cells import cell_len, chop_cells

_WIDEST = 60
_NARROWEST = 6
_GAP = " │ "


class LiveLayout(Protocol):
    """The lines of a result whose rows are not known yet."""

    @property
    def header(self) -> list[str]:
        """The lines above the first row."""

    def row(self, cells: Sequence[str]) -> list[str]:
        """Returns the lines of a row."""


def live_layout(names: Sequence[str], width: int) -> LiveLayout:
    """Returns a table if its columns fit, else a layout with one line for each column of a row."""
    free = (width - len(_GAP) * (len(names) - 1)) // max(1, len(names))
    return _Table(names, min(_WIDEST, free)) if free >= _NARROWEST else _Records(names, width)


class _Table:
    """Columns of the same width; a long cell takes several lines."""

    def __init__(self, names: Sequence[str], width: int) -> None:
        self._width = width
        self.header = [*self.row(names), "─┼─".join("─" * width for _ in names)]

    def row(self, cells: Sequence[str]) -> list[str]:
        """Returns as many lines as the longest cell needs."""
        parts = [chop_cells(cell, self._width) or [""] for cell in cells]
        height = max(map(len, parts), default=0)
        return [
            _GAP.join(_padded(part[at] if at < len(part) else "", self._width) for part in parts).rstrip()
            for at in range(height)
        ]


class _Records:
    """The columns of a row below each other, each with its name, for a terminal that is too narrow for a table."""

    def __init__(self, names: Sequence[str], width: int) -> None:
        self._names = names
        longest = max(map(cell_len, names), default=0)
        self._name_width = min(longest, max(_NARROWEST, width // 3))
        self._value_width = max(_NARROWEST, width - len(_GAP) - self._name_width)
        self._rule = "─" * self._name_width + "─┬─" + "─" * min(_WIDEST, self._value_width)
        self.header: list[str] = []

    def row(self, cells: Sequence[str]) -> list[str]:
        """Returns a rule, and the lines of each column."""
        lines = [self._rule]
        for name, cell in zip(self._names, cells, strict=True):
            names, values = chop_cells(name, self._name_width), chop_cells(cell, self._value_width)
            for at in range(max(len(names), len(values))):
                label = names[at] if at < len(names) else ""
                value = values[at] if at < len(values) else ""
                lines.append(f"{_padded(label, self._name_width)}{_GAP}{value}".rstrip())
        return lines


def _padded(text: str, width: int) -> str:
    """Returns text with blanks up to a width; some characters take two cells of a terminal."""
    return text + " " * (width - cell_len(text))
