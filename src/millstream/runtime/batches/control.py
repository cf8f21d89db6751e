"""How the driver and the planner, which runs in a process of its own, tell each other things: by small files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

import msgspec

from millstream.errors import MillstreamError
from millstream.runtime.messages import Failure, failure_of, pack, unpack


class PlannerSettings(msgspec.Struct, frozen=True):
    """What the driver wants of the planner.

    Attributes:
        records: How many records a batch may have.
        paused: Plan no batch.
        due: When the wall clock is next waited for, in milliseconds; None if it is not.
        until: How far input topics are to be read, by topic; None for ever.
        bounds: (topic, partition, time) of all partitions ever read, as in `TaskResult.bounds`.
        awake: The tasks that must run in the next batch whatever it reads; None: all.
        waiting: How many records tasks have that they cannot take yet.
        asleep: When a stream time would move next that nobody waits for, in milliseconds; None if there is none.
        number: The number of the orders, for `Control.acknowledge`.
    """

    records: int
    paused: bool = False
    due: int | None = None
    until: dict[str, list[int]] | None = None
    bounds: list[tuple[str, int, int]] = []
    awake: list[int] | None = None
    waiting: int = 0
    asleep: int | None = None
    number: int = 0


class PlannerControl(Protocol):
    """The planner's side of its control: it reads its settings, and reports."""

    def read(self) -> PlannerSettings:
        """Returns the settings that hold now; the same object as long as they have not changed."""
        ...

    def acknowledge(self, settings: PlannerSettings) -> None:
        """Reports that the planner has paused because of these settings: no batch runs, and none will begin."""
        ...

    def trouble(self, what: str | None) -> None:
        """Reports a failure that may pass and that keeps the planner from planning; None once it plans again."""
        ...

    def fail(self, error: MillstreamError) -> None:
        """Reports the error with which the planner ends."""
        ...


class Control:
    """Control by small files, for a planner in another process. Each file is written whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (-1, -1)
        self._orders = PlannerSettings(1)
        self._acknowledged = -1
        self._trouble: str | None = None
        self._heard = 0

    def write(self, orders: PlannerSettings) -> None:
        """Says what is wanted from now on."""
        if orders == self._orders and self._path.exists():
            return
        self._orders = orders
        _replace(self._path, msgspec.json.encode(orders))

    def acknowledge(self, orders: PlannerSettings) -> None:
        """The planner says that it has paused: no batch is running, and none will begin."""
        path = self._path.with_suffix(".paused")
        if self._acknowledged != orders.number:
            path.write_text(str(orders.number), encoding="ascii")
            self._acknowledged = orders.number

    def is_acknowledged(self, orders: PlannerSettings) -> bool:
        """Whether the planner has paused because of these orders."""
        path = self._path.with_suffix(".paused")
        return path.exists() and path.read_text(encoding="ascii") == str(orders.number)

    # ----- what the planner has to say -------------------------------------------------------------------------

    def trouble(self, what: str | None) -> None:
        """The planner says what keeps it from planning, and for now only that; None when it goes on."""
        if what != self._trouble:
            _replace(self._path.with_suffix(".trouble"), (what or "").encode())
            self._trouble = what

    def read_trouble(self) -> str | None:
        """What keeps the planner from planning, if anything does."""
        with contextlib.suppress(FileNotFoundError):
            return self._path.with_suffix(".trouble").read_text(encoding="utf-8") or None
        return None

    def tell(self, what: str) -> None:
        """A worker says what it runs again. On another machine than the driver's there is nowhere to say it."""
        path = self._path.with_suffix(".told")
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(what.replace("\n", " ") + "\n")

    def told(self) -> list[str]:
        """What workers have said since this was asked for last."""
        with contextlib.suppress(FileNotFoundError), self._path.with_suffix(".told").open("rb") as file:
            file.seek(self._heard)
            whole, _end, _begun = file.read().rpartition(b"\n")
            self._heard += len(whole) + 1 if whole else 0
            return whole.decode(errors="replace").splitlines()
        return []

    def fail(self, error: MillstreamError) -> None:
        """The planner says why it ends."""
        _replace(self._path.with_suffix(".failure"), pack(failure_of(error)))

    def failure(self) -> Failure | None:
        """Why the planner has ended, if it said so."""
        with contextlib.suppress(FileNotFoundError):
            return unpack(self._path.with_suffix(".failure").read_bytes(), Failure)
        return None

    def clear(self) -> None:
        """Forgets what an earlier planner had to say."""
        for suffix in (".trouble", ".failure", ".paused", ".told"):
            self._path.with_suffix(suffix).unlink(missing_ok=True)
        self._heard = 0

    def read(self) -> PlannerSettings:
        """Returns what is wanted now."""
        found = os.stat(self._path)  # noqa: PTH116  (it is asked for many times a second)
        seen = (found.st_mtime_ns, found.st_ino)
        if seen != self._seen:
            self._orders = msgspec.json.decode(self._path.read_bytes(), type=PlannerSettings)
            self._seen = seen
        return self._orders


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)
