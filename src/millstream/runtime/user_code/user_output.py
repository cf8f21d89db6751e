"""Captures the output and log records of user functions, so that the driver can show them."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TextIO

_MAX_LINES = 1000
"""The number of lines kept of a batch."""


class _Lines(io.TextIOBase):
    """Collects the first lines."""

    def __init__(self, lines: list[str], original: TextIO) -> None:
        self._lines = lines
        self._partial = ""
        self._original = original

    def write(self, text: str, /) -> int:
        *complete, self._partial = (self._partial + text).split("\n")
        for line in complete:
            if len(self._lines) < _MAX_LINES:
                self._lines.append(line)
            elif len(self._lines) == _MAX_LINES:
                self._lines.append("… (further output is omitted)")
        return len(text)

    def fileno(self) -> int:
        return self._original.fileno()

    def finish(self) -> None:
        """Adds a last line that has no line break."""
        if self._partial:
            self.write("\n")


@contextlib.contextmanager
def capture_output(lines: list[str]) -> Iterator[None]:
    """Collects the lines printed to stdout and stderr, logging included, while the block runs."""
    original = sys.stdout, sys.stderr
    capture = _Lines(lines, original[1])
    sys.stdout = sys.stderr = capture
    try:
        yield
    finally:
        sys.stdout, sys.stderr = original
        capture.finish()


class OutputBuffer:
    """Collects the lines that user functions print, until they are taken. For a process that runs for long."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Collects the lines printed to stdout and stderr, logging included, while the block runs."""
        with capture_output(self._lines):
            yield

    def take(self) -> list[str]:
        """Returns the lines since the last call. Of very many lines, it returns the first ones."""
        lines = self._lines[:]
        del self._lines[: len(lines)]
        return lines


class Output(NamedTuple):
    """The level and format of a handler of a driver's logger."""

    level: int
    form: logging.Formatter


class Logging(NamedTuple):
    """The configuration of a logger of the driver; ``output`` is None if it has no handler."""

    level: int
    propagate: bool
    output: Output | None


def logging_here() -> dict[str, Logging]:
    """The configuration of the loggers of this process, by name, without those that have the default one."""
    registered = logging.root.manager.loggerDict
    named = {name: logger for name, logger in registered.items() if isinstance(logger, logging.Logger)}
    settings = {
        name: Logging(logger.level, logger.propagate, _output(logger))
        for name, logger in {"": logging.root, **named}.items()
    }
    return {name: setting for name, setting in settings.items() if setting != (logging.NOTSET, True, None)}


def _output(logger: logging.Logger) -> Output | None:
    """The level and format of a logger's handler; of several handlers, of one that writes no file."""
    handlers = [handler for handler in logger.handlers if not isinstance(handler, logging.NullHandler)]
    if not handlers:
        return None
    handler = min(handlers, key=lambda candidate: isinstance(candidate, logging.FileHandler))
    form = handler.formatter or logging.Formatter()
    if type(form) is not logging.Formatter:  # a formatter of the user may not be picklable
        form = logging.Formatter(logging.BASIC_FORMAT)
    return Output(handler.level, form)


class _StderrHandler(logging.Handler):
    """Writes to the current ``sys.stderr``, which `capture_output` replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001  (an error in logging must not reach the caller)
            self.handleError(record)


_installed: list[tuple[logging.Logger, logging.Handler]] = []


def log_like(driver: Mapping[str, Logging]) -> None:
    """Configures the loggers of this process as `logging_here` returned them in the driver.

    With the default configuration they would show only warnings and errors.
    """
    while _installed:
        logger, handler = _installed.pop()
        logger.removeHandler(handler)
    for name, setting in driver.items():
        logger = logging.getLogger(name)
        logger.setLevel(setting.level)
        logger.propagate = setting.propagate
        if setting.output is not None:
            handler = _StderrHandler(setting.output.level)
            handler.setFormatter(setting.output.form)
            logger.addHandler(handler)
            _installed.append((logger, handler))
