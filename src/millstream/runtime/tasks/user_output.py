"""Catches what the user's functions print and log, so that it reaches the terminal wherever they run."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TextIO

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
def capture_output(lines: list[str]) -> Iterator[None]:
    """Collects what is printed to stdout and stderr, logging included, while the block runs."""
    usual = sys.stdout, sys.stderr
    catcher = _Lines(lines, usual[1])
    sys.stdout = sys.stderr = catcher
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual
        catcher.finish()


class Output(NamedTuple):
    """What a logger of the driver shows: from which level on, and in which form."""

    level: int
    form: logging.Formatter


class Logging(NamedTuple):
    """How a logger of the driver is set up; it shows nothing itself if ``output`` is None."""

    level: int
    propagate: bool
    output: Output | None


def logging_here() -> dict[str, Logging]:
    """How the loggers of this process are set up, by name: those that are not as they are made."""
    known = logging.root.manager.loggerDict
    named = {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}
    found = {
        name: Logging(logger.level, logger.propagate, _output(logger))
        for name, logger in {"": logging.root, **named}.items()
    }
    return {name: one for name, one in found.items() if one != (logging.NOTSET, True, None)}


def _output(logger: logging.Logger) -> Output | None:
    """That of a logger; if it has several, of the one that is no file."""
    handlers = [handler for handler in logger.handlers if not isinstance(handler, logging.NullHandler)]
    if not handlers:
        return None
    handler = min(handlers, key=lambda each: isinstance(each, logging.FileHandler))
    form = handler.formatter or logging.Formatter()
    if type(form) is not logging.Formatter:  # one of the user's own may not be fit to be sent
        form = logging.Formatter(logging.BASIC_FORMAT)
    return Output(handler.level, form)


class _Shown(logging.Handler):
    """Writes to what is stderr at that moment, as `capture_output` wants it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001  (logging must not fail who logs)
            self.handleError(record)


_installed: list[tuple[logging.Logger, logging.Handler]] = []


def log_like(driver: Mapping[str, Logging]) -> None:
    """Sets up the loggers of this process as `logging_here` found them in the driver. Without this they would tell of
    warnings only.
    """
    while _installed:
        logger, handler = _installed.pop()
        logger.removeHandler(handler)
    for name, one in driver.items():
        logger = logging.getLogger(name)
        logger.setLevel(one.level)
        logger.propagate = one.propagate
        if one.output is not None:
            shown = _Shown(one.output.level)
            shown.setFormatter(one.output.form)
            logger.addHandler(shown)
            _installed.append((logger, shown))
