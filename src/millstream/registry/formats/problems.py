"""Reasons why two schemas are not compatible."""

from __future__ import annotations

from typing import NamedTuple


class Sides(NamedTuple):
    """How messages name the schema that reads, and the schema that wrote the records."""

    reader: str
    writer: str


class Finding(NamedTuple):
    """A reason why two schemas are not compatible.

    Attributes:
        path: The field, such as ``lines[].price``; empty for the schema itself.
        text: The reason.
    """

    path: str
    text: str

    def below(self, step: str) -> Finding:
        """Returns the finding, seen from an outer type: a field, ``[]`` or ``{}``."""
        separator = "." if self.path and not self.path.startswith(("[", "{")) else ""
        return Finding(f"{step}{separator}{self.path}", self.text)

    def __str__(self) -> str:
        return f"{self.path or 'the schema'}: {self.text}"
