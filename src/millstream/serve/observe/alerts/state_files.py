"""Keeps the alerts of applications in the data directory, so that a server that starts again does not repeat them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

import msgspec

from millstream.serve.observe.alerts.states import Alert


class StateFiles:
    """A file with the alerts that fire for each application, in the directory ``alerts`` of the data directory.

    Several servers may serve one application. The one that holds the lock of its file delivers its alerts; the others
    only show them.

    Args:
        directory: The data directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "alerts"
        self._locks: dict[str, IO[str]] = {}

    def applications(self) -> list[str]:
        """The applications that have a file."""
        try:
            return sorted(file.stem for file in self._directory.glob("*.json"))
        except OSError:
            return []

    def acquire(self, application: str) -> bool:
        """Takes the lock of an application; returns whether this server has it."""
        if application in self._locks:
            return True
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self._directory / f"{application}.lock").open("w")
        except OSError:
            return True  # the directory cannot be written: it is better to repeat an alert than to lose it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._locks[application] = lock
        return True

    def load(self, application: str) -> list[Alert]:
        """Returns the alerts of an application that were kept; none if the file is missing or damaged."""
        try:
            return msgspec.json.decode((self._directory / f"{application}.json").read_bytes(), type=list[Alert])
        except (OSError, msgspec.MsgspecError):
            return []

    def save(self, application: str, alerts: list[Alert]) -> None:
        """Replaces the alerts of an application."""
        if application not in self._locks:
            return
        file = self._directory / f"{application}.json"
        with contextlib.suppress(OSError):
            if not alerts:
                file.unlink(missing_ok=True)
                return
            new = self._directory / f".{application}.new"
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as content:
                content.write(msgspec.json.encode(alerts))
            new.replace(file)

    def close(self) -> None:
        """Releases the locks."""
        for lock in self._locks.values():
            lock.close()
        self._locks.clear()
