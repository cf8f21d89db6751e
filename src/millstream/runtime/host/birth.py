"""Whether a process is still the one that it was."""

from __future__ import annotations

import os
import sys


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
