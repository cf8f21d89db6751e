"""Catches what the user's functions print, so that it reaches the terminal wherever they run."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

_MOST = 1000


class _Lines(io.TextIOBase):
    """Collects lines; of very many, the first ones."""

    def __init__(self, lines: list[str], usual: TextIO) -> None:
        self._lines = lines
        self._begun = ""
        self._usual = usual

    def write(self, text: str, /) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            if len(self._lines) < _MOST:
                self._lines.append(line)
            elif len(self._lines) == _MOST:
                self._lines.append("… (what was printed after this in the batch is left out)")
        return len(text)

    def fileno(self) -> int:
        return self._usual.fileno()

    def finish(self) -> None:
        """Takes a last line without an end, too."""
        if self._begun:
            self.write("\n")


@contextlib.contextmanager
def captured(lines: list[str]) -> Iterator[None]:
    """Collects what is printed to stdout and stderr, logging included, while the block runs."""
    usual = sys.stdout, sys.stderr
    catcher = _Lines(lines, usual[1])
    sys.stdout = sys.stderr = catcher
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual
        catcher.finish()
