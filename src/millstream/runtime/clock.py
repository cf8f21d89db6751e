"""The clock of the runtime. It is passed in, so that a test or a replay can control the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of time for planning, pacing, restarts and metrics."""

    def time_ms(self) -> int:
        """Wall-clock time, in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Blocks the calling thread."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def time_ms(self) -> int:
        """Wall-clock time, in milliseconds since the epoch."""
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for durations."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Blocks the calling thread."""
        time.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
