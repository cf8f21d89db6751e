"""Connects a Spark worker to the task hosts of its executor, and starts a host on first use."""

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
from millstream.runtime.host.process_identity import is_left_behind, owner_record, process_identity
from millstream.runtime.host.protocol import Fetch, HostMessage, NeedProgram, Stop
from millstream.runtime.host.wire import HostWire

_START_SECONDS = 60.0
_MAX_SOCKET_PATH = 103
"""The greatest length of a Unix socket's path, in bytes, on the system with the lowest limit."""

_OWNER = "owner"
_STOPPED = "stopped"
_SOCKET_SUFFIX = len("/0123456789ab/1234567/h123.1234567")
"""The length of the path of a host's socket below the directory of all runs, in bytes."""


def run_directory(run: str) -> Path:
    """The private directory for the sockets of one run of an application on this machine.

    It is in the directory for temporary files, or in ``/tmp`` if socket paths would be too long there.
    """
    name = f"millstream-{os.getuid()}"
    base = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(base)) + _SOCKET_SUFFIX > _MAX_SOCKET_PATH:
        base = Path("/tmp") / name  # noqa: S108  (private to this user; checked below)
    base.mkdir(mode=0o700, exist_ok=True)
    status = base.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise RunError(f"other users have access to {base}", hint="remove it; it is created again, private to you")
    return base / run


def connect(run: str, executor: int, number: int) -> HostWire:
    """Connects to a host of an executor; starts the host if it does not run.

    Args:
        run: The run of the application.
        executor: The process that forks this executor's workers; the host ends with it.
        number: The number of the host.
    """
    directory = run_directory(run) / str(executor)
    path = directory / f"h{number}"
    wire = _try_connect(path)
    if wire is not None:
        return wire
    identity = process_identity(executor)
    if identity is None:
        raise RunError("no task host is started: the parent process of this worker is gone")
    _create_directory(directory, executor)
    with open(directory / f"l{number}", "w", encoding="ascii") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        wire = _try_connect(path)
        if wire is not None:
            return wire
        process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", "millstream.runtime.host", str(path), str(executor), identity],
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
            start_new_session=True,
            env=environment(),
        )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            wire = _try_connect(path)
            if wire is not None:
                return wire
            time.sleep(0.005)
    code = process.poll()
    process.kill()
    raise RunError(
        f"a task host could not be started (exit code {code})" if code is not None else "a task host does not start",
        hint=f"to see the error, run: {sys.executable} -c 'import millstream.runtime.host.server'",
    )


def _create_directory(directory: Path, executor: int) -> None:
    """Creates the directory of an executor, with its owner record; removes those of executors that have ended."""
    if directory.exists():
        return
    for old in directory.parents[1].glob("*/[0-9]*"):
        with contextlib.suppress(OSError):  # another process creates or removes it
            if is_left_behind(int(old.name), (old / _OWNER).read_text(encoding="ascii")):
                remove_directory(old)
    directory.parent.mkdir(mode=0o700, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / _OWNER).write_text(owner_record(executor), encoding="ascii")


def remove_directory(directory: Path) -> None:
    """Removes the directory of an executor, and that of its run if it is then empty."""
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.parent.rmdir()


def environment() -> dict[str, str]:
    """The environment of a child process: the same module search path as in this process."""
    return {"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def exchange(wire: HostWire, request: HostMessage, answer: Callable[[HostMessage], HostMessage]) -> HostMessage:
    """Sends a request, answers the requests that the host makes meanwhile, and returns the response.

    Raises:
        PeerGone: The host has ended.
    """
    wire.send(request)
    while isinstance(message := wire.receive(), Fetch | NeedProgram):
        wire.send(answer(message))
    return message


def start_hosts(run: str, executor: int, count: int) -> None:
    """Starts the hosts of an executor in the background, before they are needed."""

    def start() -> None:
        for number in range(count):
            with contextlib.suppress(OSError, RunError):  # the first batch tries again, and reports the error
                connect(run, executor, number).close()

    threading.Thread(target=start, name="millstream-hosts", daemon=True).start()


def stop_all(run: str) -> None:
    """Ends all hosts of a run on this machine."""
    directory = run_directory(run)
    with contextlib.suppress(OSError):  # no host was started here
        (directory / _STOPPED).touch()
    for path in directory.glob("*/h*"):
        wire = _try_connect(path)
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
    """Whether the hosts of a run were stopped."""
    directory = run_directory(run)
    return not directory.exists() or (directory / _STOPPED).exists()


def _try_connect(path: Path) -> HostWire | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return HostWire(connection)
