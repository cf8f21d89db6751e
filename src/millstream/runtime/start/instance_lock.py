"""The directory of an application, and the lock that admits one running instance."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from millstream.errors import AlreadyRunningError
from millstream.log.opening import LogLocation


def directory_of(location: LogLocation, application: str) -> Path:
    """The directory of an application: its lock, and its checkpoint by default."""
    return location.directory / "applications" / application


def lock_application(directory: Path, application: str) -> IO[str]:
    """Takes the lock of an application. Closing it, or the end of the process, releases it.

    Raises:
        AlreadyRunningError: Another process holds it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (directory / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise AlreadyRunningError(
            f"application {application!r} is running already (process {holder or 'unknown'})",
            hint="stop that one first, or give this one another application id",
        ) from None
    with contextlib.suppress(OSError):
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    return lock
