"""Reads the reports of applications, and leaves commands for them."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.core.names import check_name
from millstream.errors import SetupError
from millstream.runtime.host.process_identity import is_left_behind
from millstream.runtime.observe.report import COMMANDS, DIRECTORY, FORMAT, REPORT

_LATE = 10.0


@dataclass(frozen=True)
class Report:
    """The last report of an application.

    Attributes:
        application: The application id.
        directory: The directory of its reports.
        content: The content of the report: see `millstream.runtime.observe.report`.
    """

    application: str
    directory: Path
    content: dict[str, Any] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether the process of the application runs."""
        if not self.content or self.content["state"] in {"NOT_RUNNING", "ERROR"}:
            return False
        return not is_left_behind(self.content["pid"], self.content["owner"])

    @property
    def lag(self) -> int:
        """The number of records that the application has still to read, as it has reported."""
        sources = (self.content.get("metrics") or {}).get("sources", {})
        return sum(source["lag"] or 0 for source in sources.values())

    @property
    def is_late(self) -> bool:
        """Whether the process runs, and has not reported for a while."""
        age = time.time() - self.content["time"] / 1000 if self.content else 0.0
        return self.is_live and age > _LATE + self.content["interval_ms"] / 1000

    @property
    def state(self) -> str:
        """The state of the application: as reported; KILLED if its process has ended without a last report."""
        if not self.content:
            return "UNKNOWN"
        if self.content["state"] in {"NOT_RUNNING", "ERROR"} or self.is_live:
            return "PAUSED" if self.content["paused"] and self.is_live else str(self.content["state"])
        return "KILLED"


class Reports:
    """The reports in a data directory. Files behind symbolic links that lead out of it are neither read nor written.

    Args:
        directory: The data directory.
        only: The only application whose reports are read; None: all.
    """

    def __init__(self, directory: Path, only: str | None = None) -> None:
        self._directory = directory / "applications"
        self._only = only
        self._read: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    def applications(self) -> list[str]:
        """The ids of the applications that have reported, in order."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._directory))
        except FileNotFoundError:
            return []
        return [name for name in names if self._serves(name) and self._is_directory(self._directory / name / DIRECTORY)]

    def report(self, application: str) -> Report:
        """Returns the last report of an application; an empty one if it has never reported."""
        check_name(application, "application")
        directory = self._directory / application / DIRECTORY
        content = self._content(application, directory / REPORT)
        return Report(application, directory, content if content.get("format") == FORMAT else {})

    def topology(self, application: str) -> dict[str, Any]:
        """Returns the topology that an application wrote at its start, as `App.describe` has it; empty without one."""
        check_name(application, "application")
        return self._content(application, self._directory / application / DIRECTORY / "topology.json")

    def configuration(self, application: str) -> dict[str, Any]:
        """Returns the configuration of an application at its start, without secrets; empty without one."""
        check_name(application, "application")
        return self._content(application, self._directory / application / DIRECTORY / "configuration.json")

    def text(self, application: str, name: str) -> str | None:
        """Returns a file that an application wrote at its start; None if there is none."""
        check_name(application, "application")
        if not self._serves(application):
            return None
        file = self._directory / application / DIRECTORY / name
        try:
            return file.read_text(encoding="utf-8") if self._is_inside(file) else None
        except FileNotFoundError:
            return None

    def command(self, application: str, command: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Leaves a command for a running application.

        Args:
            application: The application id.
            command: The command.
            arguments: Its arguments, as JSON values.

        Raises:
            SetupError: It does not run.
        """
        report = self.report(application)
        if not report.is_live:
            raise SetupError(f"application {application!r} does not run", hint=f"its state is {report.state}")
        directory = report.directory / COMMANDS
        if not self._is_inside(directory):
            hint = "replace the link by the directory that the application creates"
            raise SetupError(
                f"application {application!r} cannot be commanded: a link leads out of its data", hint=hint
            )
        new = directory / f".{uuid.uuid4().hex}"
        try:
            order = {"run": report.content["run"], "command": command, "arguments": dict(arguments or {})}
            new.write_text(json.dumps(order), encoding="utf-8")
            new.replace(directory / f"{time.time_ns()}.json")
        except OSError as error:
            raise SetupError(f"application {application!r} cannot be commanded: {error.strerror}") from None

    def _serves(self, application: str) -> bool:
        return self._only is None or application == self._only

    def _is_directory(self, path: Path) -> bool:
        return path.is_dir() and self._is_inside(path)

    def _is_inside(self, path: Path) -> bool:
        """Whether a path leads to a file in the data directory, without links to other places."""
        return path.resolve().is_relative_to(self._directory.resolve())

    def _content(self, application: str, file: Path) -> dict[str, Any]:
        if not self._serves(application):
            return {}
        try:
            status = file.stat()
            version = (status.st_mtime_ns, status.st_ino)
            known = self._read.get(file)
            if known is None or known[0] != version:
                # A link that is changed later leads to another file, and so to another version.
                content = json.loads(file.read_bytes()) if self._is_inside(file) else None
                known = (version, content if isinstance(content, dict) else {})
                self._read[file] = known
        except (OSError, ValueError):
            return {}
        return known[1]
