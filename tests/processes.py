"""The processes of this machine. Any of them may end during the listing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process that ran a moment ago.

    Attributes:
        pid: Its process id.
        parent: The process id of its parent.
        command: Its command line.
        environment: Its environment variables at the start, as `NAME=value`.
    """

    pid: int
    parent: int
    command: str
    environment: frozenset[str]


def running() -> dict[int, Process]:
    """The accessible processes, by their ids, without zombies."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            parent = int((folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            command = " ".join(_words(folder / "cmdline"))
            if command:
                processes[pid] = Process(pid, parent, command, frozenset(_words(folder / "environ")))
    return processes


def below(ancestor: int) -> list[Process]:
    """All descendants of a process."""
    processes = running()

    def is_below(pid: int) -> bool:
        while pid in processes:
            pid = processes[pid].parent
            if pid == ancestor:
                return True
        return False

    return [process for pid, process in processes.items() if is_below(pid)]


def open_files(pid: int) -> list[Path]:
    """The files that a process has open; none if it has ended."""
    files = []
    with contextlib.suppress(OSError):
        for descriptor in Path("/proc", str(pid), "fd").iterdir():
            with contextlib.suppress(OSError):
                files.append(descriptor.readlink())
    return files


def _words(path: Path) -> list[str]:
    return path.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
