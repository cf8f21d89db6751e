"""Whether a process is still the one that it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def birth(pid: int) -> str | None:
    """Something that changes when a process ends, even if another one gets its number; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123
            fields = stat.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if sys.platform == "linux":
            return None
    else:
        return None if fields[0] in "ZX" else fields[19]  # one that has ended may wait for long to be looked after
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "alive"


def owner_record(pid: int) -> str:
    """What a directory says of the process that it belongs to: when it was born, and where it can be looked for."""
    return f"{_namespace()} {birth(pid) or ''}"


def is_left_behind(pid: int, record: str) -> bool:
    """Whether the process that a directory belongs to is gone; False if it cannot be looked for from here."""
    namespace, _, born = record.partition(" ")
    return namespace == _namespace() and birth(pid) != born


def _namespace() -> str:
    """The processes that this one can see: a container sees its own only."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "-"
