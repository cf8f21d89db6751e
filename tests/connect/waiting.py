"""Waits for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 50


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)
