"""Points at which a test can kill the process, to check recovery.

A module declares a point once, and reaches it where a crash is to be tested:

    BEFORE_COMMIT = declare("log.publish.before-commit")
    ...
    reach(BEFORE_COMMIT)

If the environment variable ``MILLSTREAM_FAILPOINT`` is ``name``, the process exits at the point without any cleanup;
``name:n`` exits at the n-th pass. Otherwise a point does nothing.
"""

from __future__ import annotations

import os

from millstream.errors import ConfigError

EXIT_STATUS = 137

FAILPOINTS: set[str] = set()
"""The names of the points of all loaded modules."""


class _Armed:
    """The armed point, and the remaining passes."""

    __slots__ = ("left", "name")

    def __init__(self, name: str, left: int) -> None:
        self.name = name
        self.left = left


_armed: _Armed | None = None


def declare(name: str) -> str:
    """Declares a point and returns it. Its name must be unique."""
    if name in FAILPOINTS:
        raise ConfigError(f"failpoint {name!r} is already declared")
    FAILPOINTS.add(name)
    return name


def arm(specification: str | None) -> None:
    """Arms a point, given as in the environment variable. None and "" disarm it."""
    global _armed  # noqa: PLW0603  (`reach` must be fast, and a global is the fastest to read)
    if not specification:
        _armed = None
        return
    name, _, passes = specification.partition(":")
    if passes and not (passes.isdecimal() and int(passes)):
        raise ConfigError(f"MILLSTREAM_FAILPOINT: {specification!r} does not end in a number of passes")
    _armed = _Armed(name, int(passes or 1))


def reach(point: str) -> None:
    """Passes a point: exits the process if the point is armed and this is its last pass."""
    if _armed is not None and _armed.name == point:
        _armed.left -= 1
        if _armed.left <= 0:  # several threads may pass at the same time
            os._exit(EXIT_STATUS)


arm(os.environ.get("MILLSTREAM_FAILPOINT"))
