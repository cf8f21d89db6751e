"""Reports of running applications for other processes, such as the server, and commands from them.

The directory ``run`` of an application contains:

- ``report.json``: the state, the metrics and the last errors. The application writes it at each change of its state,
  and every ``report.interval.ms``.
- ``topology.json``, ``topology.mermaid``, ``topology.text``: the topology, written at the start.
- ``configuration.json``: the configuration, without secrets.
- ``commands``: a file for each command of another process. The application removes it when it takes the command.

A report that cannot be written is left out, because a report must not disturb the application.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from millstream.config.secrets import is_secret
from millstream.errors import MillstreamError
from millstream.runtime.host.process_identity import owner_record
from millstream.runtime.lifecycle import State
from millstream.stages.describe import Format, describe
from millstream.text.escaping import error_text

if TYPE_CHECKING:
    from millstream.runtime.observe.metrics import Metrics
    from millstream.runtime.start.prepared_application import PreparedApplication

FORMAT = 1
"""The version of the report."""

DIRECTORY = "run"
COMMANDS = "commands"
REPORT = "report.json"
HIDDEN = "[hidden]"
"""The value that a secret of the configuration has in reports."""

_MOST_ERRORS = 50
_PASSWORD_IN_URL = re.compile(r"(\w://)[^/\s@]+@")
_COMMANDS_EVERY = 0.25

Commands = Mapping[str, Callable[..., None]]


class Reporter:
    """Writes the reports of one application, and carries out the commands for it. It may be used from any thread.

    Args:
        application: The application.
        metrics: Its metrics.
        commands: The functions that carry out commands, by name.
    """

    def __init__(self, application: PreparedApplication, metrics: Metrics, commands: Commands) -> None:
        self._application = application
        self._metrics = metrics
        self._commands = commands
        self._directory = application.directory / DIRECTORY
        self._run = uuid.uuid4().hex
        self._started = _now()
        self._since = self._started
        self._state = State.CREATED
        self._errors: deque[dict[str, Any]] = deque(maxlen=_MOST_ERRORS)
        self._problem: str | None = None
        self._is_paused = False
        self._figures: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._is_over = False
        self.interval: float = application.program.config["report.interval.ms"] / 1000
        self.due = 0.0

    def start(self) -> None:
        """Writes what does not change during the run, and begins to report."""
        if not self.interval:
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            commands = self._directory / COMMANDS
            commands.mkdir(mode=0o700, exist_ok=True)
            for file in commands.iterdir():  # commands for an earlier run
                file.unlink()
            program = self._application.program
            for form in get_args(Format):
                if form != "svg":
                    self._write(f"topology.{form}", describe(program.topology, form))
            self._write("configuration.json", json.dumps(_plain(program.config), indent=1))
        _reports.add(self)

    def state_changed(self, state: State, _before: State) -> None:
        """Notes the new state. The final state is reported by `end`, while the application holds its lock."""
        if not state.is_over:
            self._state, self._since, self.due = state, _now(), 0.0

    def failed(self, error: MillstreamError) -> None:
        """Notes an error."""
        self._errors.append({"time": _now(), "code": error.code, "message": error.message, "hint": error.hint})
        self.due = 0.0

    def retried(self, message: str) -> None:
        """Notes that a part of the application was lost and is started again."""
        self._errors.append({"time": _now(), "code": "retry", "message": message, "hint": None})
        self.due = 0.0

    def blocked(self, reason: str | None) -> None:
        """Notes why there is no progress; None once it continues."""
        self._problem = reason

    def paused(self, is_paused: bool) -> None:
        """Notes whether the application is paused."""
        self._is_paused, self.due = is_paused, 0.0

    def end(self, state: State) -> None:
        """Writes the last report."""
        if self.interval:
            _reports.remove(self)
            with self._lock:
                self._is_over = True
                self._state, self._since = state, _now()
                self._report()

    def report(self) -> None:
        """Writes a report, unless the application has ended."""
        with self._lock:
            if not self._is_over:
                self._report()

    def take_commands(self) -> None:
        """Carries out the commands that other processes have left."""
        with contextlib.suppress(OSError):
            for file in sorted((self._directory / COMMANDS).glob("*.json")):
                try:
                    order = json.loads(file.read_bytes())
                except (ValueError, RecursionError):
                    order = None
                file.unlink()
                if isinstance(order, dict) and order.get("run") == self._run:
                    command = self._commands.get(str(order.get("command")))
                    if command is not None and not self._is_over:
                        command(**order.get("arguments", {}))

    def _report(self) -> None:
        if self._problem is None:  # a broker that is away would not answer
            with contextlib.suppress(Exception):
                self._figures = self._metrics.read()
        report = {
            "format": FORMAT,
            "application": self._application.id,
            "run": self._run,
            "pid": os.getpid(),
            "owner": owner_record(os.getpid()),
            "mode": self._application.program.config["execution.mode"],
            "state": self._state.value,
            "paused": self._is_paused,
            "since": self._since,
            "started": self._started,
            "time": _now(),
            "interval_ms": int(self.interval * 1000),
            "problem": self._problem,
            "errors": list(self._errors),
            "metrics": self._figures,
        }
        with contextlib.suppress(OSError, ValueError):
            self._write(REPORT, json.dumps(report, separators=(",", ":")))

    def _write(self, name: str, text: str) -> None:
        """Replaces a file, so that readers see the former or the new one, whole."""
        new = self._directory / f".{name}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(self._directory / name)


class _Reports:
    """The thread that reports for all applications of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reporters: list[Reporter] = []
        self._thread: threading.Thread | None = None

    def add(self, reporter: Reporter) -> None:
        with self._lock:
            self._reporters.append(reporter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="millstream-reports", daemon=True)
                self._thread.start()

    def remove(self, reporter: Reporter) -> None:
        with self._lock:
            if reporter in self._reporters:
                self._reporters.remove(reporter)

    def _run(self) -> None:
        while True:
            with self._lock:
                reporters = list(self._reporters)
                if not reporters:
                    self._thread = None
                    return
            for reporter in reporters:
                try:
                    reporter.take_commands()
                    if time.monotonic() >= reporter.due:
                        reporter.due = time.monotonic() + reporter.interval
                        reporter.report()
                except Exception as error:  # noqa: BLE001  (a failed command must not end the reports of all)
                    reporter.retried(f"a report or a command has failed: {error_text(error)}")
            time.sleep(_COMMANDS_EVERY)

    def forked(self) -> None:
        """Begins anew in a forked process, which has neither the thread nor the applications."""
        self._lock = threading.Lock()
        self._reporters = []
        self._thread = None


_reports = _Reports()
os.register_at_fork(after_in_child=_reports.forked)


def _now() -> int:
    return int(time.time() * 1000)


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as JSON types: secrets are hidden, objects are shown by name."""
    return {key: HIDDEN if is_secret(key, config[key]) else _shown(config[key]) for key in sorted(config)}


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Path):
        return str(value)
    return getattr(value, "__name__", None) or repr(value)
