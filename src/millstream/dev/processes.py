"""Processes of servers: how to recognize them, and how they end with this one."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from pathlib import Path

from millstream.runtime.host.process_identity import process_identity

_FORK_TIMEOUT = 1.0
_PDEATHSIG = 1


def command_of(pid: int) -> bytes:
    """Returns the command line of a process, or nothing if there is none.

    It tells a server from another process with a reused id.
    """
    try:
        if sys.platform == "linux":
            return _command_on_linux(pid)
        ps = ["ps", "-ww", "-p", str(pid), "-o", "command="]
        return subprocess.run(ps, capture_output=True, check=False).stdout.rstrip()  # noqa: S603
    except OSError:
        return b""


def _command_on_linux(pid: int) -> bytes:
    """Returns the command line of a process. It is empty for a moment after a fork, and after the process has ended."""
    deadline = time.monotonic() + _FORK_TIMEOUT
    while True:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").rstrip()
        if command or process_identity(pid) is None or time.monotonic() > deadline:
            return command
        time.sleep(_FORK_TIMEOUT / 100)


def die_with_parent() -> None:
    """Has Linux kill this process when its parent ends. Called between fork and exec."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
