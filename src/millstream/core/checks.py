"""What a look at a machine or a cluster finds."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Check(NamedTuple):
    """What a check found.

    Attributes:
        name: What was looked at.
        status: Whether it is as it should be.
        found: What was found.
        fix: What to do about it.
    """

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str | None = None
