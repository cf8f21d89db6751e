"""The way to a task host: finds the one that a task belongs to, and starts it if it is not there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from millstream.errors import RunError
from millstream.runtime.host.process_identity import birth, is_left_behind, owner_record
from millstream.runtime.host.wire import Wire
from millstream.runtime.messages import Fetch, HostMessage, NeedProgram, Stop

_START_SECONDS = 60.0
_LONGEST = 103
"""How many bytes the path of a Unix socket may have, on the system that allows the fewest."""

_OWNER = "owner"
_STOPPED = "stopped"
_BELOW = len("/0123456789ab/1234567/h123.1234567")
"""How many bytes the path of a host's socket has below the directory of all runs."""


def run_directory(run: str) -> Path:
    """The private directory of the sockets of one run of an application on this machine.

    It is where temporary files are, or in ``/tmp`` if paths of sockets would be too long there.
    """
    name = f"millstream-{os.getuid()}"
    base = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(base)) + _BELOW > _LONGEST:
        base = Path("/tmp") / name  # noqa: S108  (made for this user alone, and looked at below)
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RunError(f"{base} can be used by others", hint="remove it; it is made anew, for you alone")
    return base / run


def connect(run: str, executor: int, number: int) -> Wire:
    """Connects with a host of an executor; starts it if it is not there.

    Args:
        run: The run of the application.
        executor: The process from which the workers of this executor come: the host ends with it.
        number: The number of the host.
    """
    directory = run_directory(run) / str(executor)
    path = directory / f"h{number}"
    wire = _try(path)
    if wire is not None:
        return wire
    born = birth(executor)
    if born is None:
        raise RunError("no task host is started: the process that this worker came from is gone")
    _make(directory, executor)
    with open(directory / f"l{number}", "w", encoding="ascii") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        wire = _try(path)
        if wire is not None:
            return wire
        process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", "millstream.runtime.host", str(path), str(executor), born],
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
            start_new_session=True,
            env=environment(),
        )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            wire = _try(path)
            if wire is not None:
                return wire
            time.sleep(0.005)
    code = process.poll()
    process.kill()
    raise RunError(
        f"a task host could not be started (exit code {code})" if code is not None else "a task host does not start",
        hint=f"try it yourself: {sys.executable} -c 'import millstream.runtime.host.server'",
    )


def _make(directory: Path, executor: int) -> None:
    """Makes the directory of an executor, which says whose it is. Those of executors that are gone are removed."""
    if directory.exists():
        return
    for old in directory.parents[1].glob("*/[0-9]*"):
        with contextlib.suppress(OSError):  # it is being made, or removed
            if is_left_behind(int(old.name), (old / _OWNER).read_text(encoding="ascii")):
                remove(old)
    directory.parent.mkdir(mode=0o700, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / _OWNER).write_text(owner_record(executor), encoding="ascii")


def remove(directory: Path) -> None:
    """Removes the directory of an executor, and that of its run, if it was the last one there."""
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.parent.rmdir()


def environment() -> dict[str, str]:
    """The environment of a process of ours: it finds the modules that this one finds."""
    return {"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def ask(wire: Wire, request: HostMessage, answer: Callable[[HostMessage], HostMessage]) -> HostMessage:
    """Sends a request, answers what the host asks meanwhile, and returns what comes of it.

    Raises:
        HostGone: The host has ended.
    """
    wire.send(request)
    while isinstance(message := wire.receive(), Fetch | NeedProgram):
        wire.send(answer(message))
    return message


def start_hosts(run: str, executor: int, count: int) -> None:
    """Has the hosts of an executor started in the background: they will be needed soon."""

    def start() -> None:
        for number in range(count):
            with contextlib.suppress(OSError, RunError):  # whoever needs it will try again, and tell
                connect(run, executor, number).close()

    threading.Thread(target=start, name="millstream-hosts", daemon=True).start()


def stop_all(run: str) -> None:
    """Ends all hosts of a run on this machine."""
    directory = run_directory(run)
    with contextlib.suppress(OSError):  # no host was started here
        (directory / _STOPPED).touch()
    for path in directory.glob("*/h*"):
        wire = _try(path)
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.send(Stop())
            wire.close()
    for path in sorted(directory.glob("*/*"), reverse=True):
        path.unlink(missing_ok=True)
    (directory / _STOPPED).unlink(missing_ok=True)
    for path in [*directory.glob("*"), directory]:
        with contextlib.suppress(OSError):
            path.rmdir()


def is_stopped(run: str) -> bool:
    """Whether the hosts of a run have ended because they were told to."""
    directory = run_directory(run)
    return not directory.exists() or (directory / _STOPPED).exists()


def _try(path: Path) -> Wire | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return Wire(connection)
