"""Control of the planner: its settings, and its reports. Spark runs it in another process, so both are small files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

import msgspec

from millstream.errors import MillstreamError
from millstream.runtime.messages import Failure, failure_of, pack, unpack
from millstream.runtime.order.positions import Position


class PlannerSettings(msgspec.Struct, frozen=True):
    """Settings of the planner, which change with every batch.

    Attributes:
        records: Greatest number of records of a batch.
        paused: Plan no batch.
        due: Wall-clock time, in milliseconds, of the next tick; None if no task requests one.
        until: End offsets up to which input topics are read, by topic; None: no end.
        bounds: (topic, partition, position): least order position of the unread records of partitions read so far.
        held: (sub-topology, position): least order position that its tasks have read and not processed.
        awake: The tasks that must run in the next batch even without input; None: all.
        waiting: Number of records that tasks have read and cannot process yet.
        asleep: Earliest wall-clock time at which an idle stream clock would advance with nothing to emit; None: never.
        number: Number of these settings, for `Control.acknowledge`.
    """

    records: int
    paused: bool = False
    due: int | None = None
    until: dict[str, list[int]] | None = None
    bounds: list[tuple[str, int, Position]] = []
    held: list[tuple[int, Position]] = []
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
        self._version = (-1, -1)
        self._settings = PlannerSettings(1)
        self._acknowledged = -1
        self._trouble: str | None = None
        self._retries_read = 0

    # ----- the driver's side -----------------------------------------------------------------------------------

    def write(self, settings: PlannerSettings) -> None:
        """Writes new settings."""
        if settings == self._settings and self._path.exists():
            return
        self._settings = settings
        _replace(self._path, msgspec.json.encode(settings))

    def is_acknowledged(self, settings: PlannerSettings) -> bool:
        """Whether the planner has paused because of these settings."""
        path = self._path.with_suffix(".paused")
        return path.exists() and path.read_text(encoding="ascii") == str(settings.number)

    def read_trouble(self) -> str | None:
        """The failure that keeps the planner from planning, if any does."""
        with contextlib.suppress(FileNotFoundError):
            return self._path.with_suffix(".trouble").read_text(encoding="utf-8") or None
        return None

    def read_retries(self) -> list[str]:
        """Returns the retries that workers have reported since the last call."""
        with contextlib.suppress(FileNotFoundError), self._path.with_suffix(".retries").open("rb") as file:
            file.seek(self._retries_read)
            lines, _newline, _incomplete = file.read().rpartition(b"\n")
            self._retries_read += len(lines) + 1 if lines else 0
            return lines.decode(errors="replace").splitlines()
        return []

    def failure(self) -> Failure | None:
        """The error with which the planner has ended, if it has."""
        with contextlib.suppress(FileNotFoundError):
            return unpack(self._path.with_suffix(".failure").read_bytes(), Failure)
        return None

    def clear(self) -> None:
        """Deletes the reports of an earlier planner."""
        for suffix in (".trouble", ".failure", ".paused", ".retries"):
            self._path.with_suffix(suffix).unlink(missing_ok=True)
        self._retries_read = 0

    # ----- the planner's side: `PlannerControl`, and workers ---------------------------------------------------

    def read(self) -> PlannerSettings:
        """Returns the settings; decodes them only if the file has changed."""
        stat = os.stat(self._path)  # noqa: PTH116  (it is called many times a second)
        version = (stat.st_mtime_ns, stat.st_ino)
        if version != self._version:
            self._settings = msgspec.json.decode(self._path.read_bytes(), type=PlannerSettings)
            self._version = version
        return self._settings

    def acknowledge(self, settings: PlannerSettings) -> None:
        """Writes that the planner has paused: no batch is running, and none will begin."""
        path = self._path.with_suffix(".paused")
        if self._acknowledged != settings.number:
            path.write_text(str(settings.number), encoding="ascii")
            self._acknowledged = settings.number

    def trouble(self, what: str | None) -> None:
        """Writes the failure that keeps the planner from planning; None once it plans again."""
        if what != self._trouble:
            _replace(self._path.with_suffix(".trouble"), (what or "").encode())
            self._trouble = what

    def fail(self, error: MillstreamError) -> None:
        """Writes the error with which the planner ends."""
        _replace(self._path.with_suffix(".failure"), pack(failure_of(error)))

    def report_retry(self, message: str) -> None:
        """Adds a retry that a worker reports. A worker on another machine than the driver cannot report it."""
        path = self._path.with_suffix(".retries")
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(message.replace("\n", " ") + "\n")


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)
