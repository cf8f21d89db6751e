"""Administration of an application that is not running: reset it, or migrate its state."""

from __future__ import annotations

from millstream.runtime.admin.application_reset import Position, reset
from millstream.runtime.admin.migration import migrate

__all__ = ["Position", "migrate", "reset"]
