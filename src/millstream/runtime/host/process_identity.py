"""Identifies a process beyond its id, which the system may give to another process."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def process_identity(pid: int) -> str | None:
    """A string that differs for a later process with the same id (on Linux, the start time); None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123
            fields = stat.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if sys.platform == "linux":
            return None
    else:
        return None if fields[0] in "ZX" else fields[19]  # a zombie has ended
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"


def owner_record(pid: int) -> str:
    """The record, kept in a process's directory, of its PID namespace and identity."""
    return f"{_namespace()} {process_identity(pid) or ''}"


def is_left_behind(pid: int, record: str) -> bool:
    """Whether the process that owns a directory has ended; False if it runs in another PID namespace."""
    namespace, _, identity = record.partition(" ")
    return namespace == _namespace() and process_identity(pid) != identity


def _namespace() -> str:
    """The PID namespace of this process: a container sees only its own processes."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "-"
