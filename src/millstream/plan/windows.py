"""Windows as a plan holds them: plain numbers of milliseconds, checked when they are made."""

from __future__ import annotations

from typing import TypeAlias

from millstream.core.durations import END_OF_TIME, later, show_ms
from millstream.core.frozen import Value
from millstream.errors import TopologyError
from millstream.text.suggestions import suggesting_attributes


@suggesting_attributes
class TimeWindow(Value):
    """Tumbling and hopping windows: of a size, one starting every ``advance``, aligned to the epoch, end exclusive."""

    size: int
    advance: int
    grace: int
    idle: int | None = None

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise TopologyError(
                f"window size must be more than zero, got {show_ms(self.size)}", hint='write it as "1m" or "500ms"'
            )
        if not 0 < self.advance <= self.size:
            raise TopologyError(
                f"window advance must be more than zero and no more than the size ({show_ms(self.size)}), "
                f"got {show_ms(self.advance)}",
                hint="a larger advance would leave gaps between the windows",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """How long rows are kept unless the user says otherwise."""
        return later(self.size, self.grace)

    @property
    def close_delay(self) -> int:
        """How much stream time must pass after a window's end before suppress lets it go."""
        return self.grace


@suggesting_attributes
class SlidingWindow(Value):
    """Windows that begin or end with a record: every span of ``difference`` in which records are, ends inclusive."""

    difference: int
    grace: int
    idle: int | None = None

    def __post_init__(self) -> None:
        if self.difference < 0:
            raise TopologyError(
                f"sliding window difference must not be negative, got {show_ms(self.difference)}",
                hint="it is how far apart records of one window may be",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """How long rows are kept unless the user says otherwise."""
        return later(2 * self.difference, self.grace)

    @property
    def close_delay(self) -> int:
        """How much stream time must pass after a window's end before suppress lets it go."""
        return self.grace


@suggesting_attributes
class SessionWindow(Value):
    """Windows of activity: records of a key that are no more than ``gap`` apart are one session, ends inclusive."""

    gap: int
    grace: int
    idle: int | None = None

    def __post_init__(self) -> None:
        if self.gap < 0:
            raise TopologyError(
                f"session gap must not be negative, got {show_ms(self.gap)}",
                hint="it is how far apart neighbouring records of one session may be",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """How long rows are kept unless the user says otherwise."""
        return later(self.gap, self.grace)

    @property
    def close_delay(self) -> int:
        """How much stream time must pass after a window's end before suppress lets it go."""
        return later(self.gap, self.grace)


@suggesting_attributes
class UnlimitedWindow(Value):
    """One window from ``start`` to the end of time; records before it are in none."""

    start: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise TopologyError(f"the start of an unlimited window must not be negative, got {self.start}")

    grace = 0
    idle = None
    retention = END_OF_TIME
    close_delay = 0


@suggesting_attributes
class JoinWindow(Value):
    """Which records of two streams belong together: right.ts in [left.ts - before, left.ts + after].

    ``eager`` is Kafka's deprecated behaviour: unmatched records of a left or outer join are emitted at once.
    """

    before: int
    after: int
    grace: int
    idle: int | None = None
    eager: bool = False

    def __post_init__(self) -> None:
        if self.before + self.after < 0:
            raise TopologyError(
                f"join window ends before it starts: before {show_ms(self.before)}, after {show_ms(self.after)}",
                hint="before + after must not be negative",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """How long each side's records are kept."""
        return later(self.before + self.after, self.grace)


Window: TypeAlias = TimeWindow | SlidingWindow | SessionWindow | UnlimitedWindow


def _check_grace(grace: int, idle: int | None) -> None:
    if grace < 0:
        raise TopologyError(
            f"grace must not be negative, got {show_ms(grace)}", hint="leave it out to take no late records"
        )
    if idle is not None and idle <= 0:
        raise TopologyError(
            f"idle must be more than zero, got {show_ms(idle)}", hint="leave it out to let only records move time"
        )
