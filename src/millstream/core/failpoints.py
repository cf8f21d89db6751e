"""Places at which a test can make the process die, to see what is left behind.

A module declares a point once and passes it where a crash would be interesting:

    BEFORE_COMMIT = declare("log.publish.before-commit")
    ...
    reach(BEFORE_COMMIT)

Nothing happens there unless the environment variable ``MILLSTREAM_FAILPOINT`` names the point, as ``name`` or, to die
at the n-th pass, ``name:n``. The process then ends at once, as if it were killed.
"""

from __future__ import annotations

import os

from millstream.errors import ConfigError

EXIT_STATUS = 137

FAILPOINTS: set[str] = set()
"""The names of all points of the modules that are loaded."""


class _Armed:
    """The point at which to die, and how many passes are left."""

    __slots__ = ("left", "name")

    def __init__(self, name: str, left: int) -> None:
        self.name = name
        self.left = left


_armed: _Armed | None = None


def declare(name: str) -> str:
    """Returns the point of that name, which no other module may have."""
    if name in FAILPOINTS:
        raise ConfigError(f"there is a failpoint {name!r} already")
    FAILPOINTS.add(name)
    return name


def arm(specification: str | None) -> None:
    """Makes the process die at a point, given as in the environment variable; at none for None or ""."""
    global _armed  # noqa: PLW0603  (what `reach` looks at must be the quickest thing to look at)
    if not specification:
        _armed = None
        return
    name, _, passes = specification.partition(":")
    if passes and not (passes.isdecimal() and int(passes)):
        raise ConfigError(f"MILLSTREAM_FAILPOINT: {specification!r} does not end in a number of passes")
    _armed = _Armed(name, int(passes or 1))


def reach(point: str) -> None:
    """Passes a point: dies here if it was asked for, else does nothing."""
    if _armed is not None and _armed.name == point:
        _armed.left -= 1
        if not _armed.left:
            os._exit(EXIT_STATUS)


arm(os.environ.get("MILLSTREAM_FAILPOINT"))
