"""A server on this machine, for development and tests: a process, and the directory of its properties and its log."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from millstream.dev.processes import die_with_parent
from millstream.errors import SetupError

_POLL = 0.05
_KILL_SECONDS = 120.0


class Server(ABC):
    """A server in a process of its own. Other processes find it by its directory.

    Args:
        directory: The directory of its data and its log; created if missing.
        attached: Whether the server ends when this process does.
    """

    kind: ClassVar[str]
    """Names the server in messages, and its files."""

    timeout: ClassVar[float]
    """The time in seconds in which it must answer after its start."""

    def __init__(self, directory: Path, *, attached: bool) -> None:
        self.directory = directory.resolve()  # other processes may name it by another path
        self._attached = attached
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server answers a request."""

    @abstractmethod
    def _is_own(self, pid: int) -> bool:
        """Whether a process is the server of this directory, not another process with a reused id."""

    @abstractmethod
    def _addresses(self) -> dict[str, Any]:
        """The facts that a later start needs: its ports."""

    # ----- life ------------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The process id of the server, or None if it is not running."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        pid = self._recorded().get("pid")
        return pid if pid is not None and self._is_own(pid) else None

    @property
    def started(self) -> float | None:
        """The time of the last start, in seconds since the epoch."""
        return self._recorded().get("started")

    def _launch(self, command: Sequence[str], output: IO[bytes], **options: Any) -> int:
        """Starts the process, with more options of `subprocess.Popen`; returns its id."""
        self._process = subprocess.Popen(  # noqa: S603  (the user's own Java)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent if self._attached and sys.platform == "linux" else None,  # noqa: PLW1509
            **options,
        )
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Waits until the server answers.

        Raises:
            SetupError: It has ended, or does not answer in time.
        """
        deadline = time.monotonic() + self.timeout
        while not self.answers():
            if self.pid is None:
                raise SetupError(f"the {self.kind} does not start: {self._last_error()}")
            if time.monotonic() > deadline:
                raise SetupError(f"the {self.kind} does not answer after {self.timeout:g} s: {self._last_error()}")
            time.sleep(_POLL)

    def stop(self, seconds: float = 20.0) -> None:
        """Shuts the server down; kills it if that takes too long."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not self._wait_until_gone(pid, seconds):
            self.kill()
        self._record(pid=None)

    def kill(self) -> None:
        """Kills the server."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            self._wait_until_gone(pid, _KILL_SECONDS)
            self._record(pid=None)

    def delete(self) -> None:
        """Kills the server, and deletes its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_until_gone(self, pid: int, seconds: float) -> bool:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return True
            return False
        deadline = time.monotonic() + seconds
        while self._is_own(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    # ----- files -----------------------------------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        return self.directory / f"{self.kind}.log"

    def _recorded(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.directory / f"{self.kind}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return record

    def _record(self, *, pid: int | None, **facts: Any) -> None:
        part = self.directory / f"{self.kind}.json.part"
        part.write_text(json.dumps({"pid": pid, **self._addresses(), **facts}), encoding="utf-8")
        part.replace(self.directory / f"{self.kind}.json")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the directory, so that two processes that start the server at once start one."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _last_error(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return next(reversed(errors or lines), "its log is empty")
