"""How the driver tells the planner, which runs in a process of its own, what it wants: through a small file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Orders(msgspec.Struct, frozen=True):
    """What the driver wants of the planner.

    Attributes:
        records: How many records a batch may have.
        paused: Plan no batch.
        due: When the wall clock is next waited for, in milliseconds; None if it is not.
        until: How far input topics are to be read, by topic; None for ever.
        number: The number of the orders, for `Control.acknowledge`.
    """

    records: int
    paused: bool = False
    due: int | None = None
    until: dict[str, list[int]] | None = None
    number: int = 0


class Control:
    """The file: written whole by the driver, read by the planner when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (-1, -1)
        self._orders = Orders(1)
        self._acknowledged = -1

    def write(self, orders: Orders) -> None:
        """Says what is wanted from now on."""
        if orders == self._orders and self._path.exists():
            return
        self._orders = orders
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(orders))
        part.replace(self._path)

    def acknowledge(self, orders: Orders) -> None:
        """The planner says that it has paused: no batch is running, and none will begin."""
        path = self._path.with_suffix(".paused")
        if self._acknowledged != orders.number:
            path.write_text(str(orders.number), encoding="ascii")
            self._acknowledged = orders.number

    def is_acknowledged(self, orders: Orders) -> bool:
        """Whether the planner has paused because of these orders."""
        path = self._path.with_suffix(".paused")
        return path.exists() and path.read_text(encoding="ascii") == str(orders.number)

    def read(self) -> Orders:
        """Returns what is wanted now."""
        found = os.stat(self._path)  # noqa: PTH116  (it is asked for many times a second)
        seen = (found.st_mtime_ns, found.st_ino)
        if seen != self._seen:
            self._orders = msgspec.json.decode(self._path.read_bytes(), type=Orders)
            self._seen = seen
        return self._orders
