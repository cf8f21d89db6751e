"""Sends functions of a script to another process, in the way an application is sent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

RECEIVER = """
import sys
from pathlib import Path
from millstream.errors import MillstreamError
from millstream.runtime.program.program import unpack
{before}
for path in sys.argv[1:]:
    try:
        print(unpack(Path(path).read_bytes())())
    except MillstreamError as error:
        print(error.code, error.message, error.hint, sep=" | ")
"""


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Project:
    """A directory with a script and modules beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def write(self, name: str, text: str) -> None:
        """Writes a module, by its path in the directory."""
        path = self._folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def pack(self, script: str, *command: str) -> Path:
        """Runs a script, which packs functions by ``pack(function)``; returns the path of the last one."""
        self._count += 1
        target = self._folder.parent / f"packed-{self._count}"
        begin = f"""
            from pathlib import Path
            from millstream.runtime.program import program
            def pack(thing):
                Path({str(target)!r}).write_bytes(program.pack(thing))
        """
        self.write("script", textwrap.dedent(begin) + textwrap.dedent(script))
        run(*command, *([] if command else [str(self._folder / "script.py")]))
        return target


def received(*paths: Path, before: str = "") -> list[str]:
    """The results of packed functions in another process."""
    return run("-c", RECEIVER.format(before=textwrap.dedent(before)), *map(str, paths)).splitlines()
