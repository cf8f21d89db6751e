"""The result of a diagnostic check of a machine or a cluster, as `millstream doctor` reports it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        name: The thing that was checked.
        status: Whether it is in order.
        found: Its actual state.
        fix: How to correct it.
    """

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str | None = None
