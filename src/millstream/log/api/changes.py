"""Notices commits, whichever topic they write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Version: TypeAlias = object
"""A value that changes with each commit. Only the thread that has read it compares it."""


class Changes(Protocol):
    """Notices commits, those of other processes included."""

    def version(self) -> Version:
        """Returns a value that changes with each commit."""
        ...

    def wait(self, version: Version, timeout: float, is_over: Callable[[], bool] = ...) -> bool:
        """Waits for a commit after a version; returns whether there was one.

        Args:
            version: The version.
            timeout: Seconds to wait at most.
            is_over: Ends the wait; called again after `notify`.
        """
        ...

    def notify(self) -> None:
        """Has all waits in this process check whether they are over."""
        ...
