"""The windows of a plan: numbers of milliseconds, validated at construction."""

from __future__ import annotations

from typing import TypeAlias

from millstream.core.durations import END_OF_TIME, later, show_ms
from millstream.core.frozen import Value
from millstream.errors import TopologyError
from millstream.text.suggestions import suggesting_attributes


@suggesting_attributes
class TimeWindow(Value):
    """Tumbling and hopping windows of one size; one starts every ``advance``, aligned to the epoch; end exclusive."""

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
        """The default retention of rows."""
        return later(self.size, self.grace)

    @property
    def close_delay(self) -> int:
        """The stream time that must pass after a window's end before suppress emits it."""
        return self.grace


@suggesting_attributes
class SlidingWindow(Value):
    """Windows that start or end with a record and span ``difference``, both ends inclusive."""

    difference: int
    grace: int
    idle: int | None = None

    def __post_init__(self) -> None:
        if self.difference < 0:
            raise TopologyError(
                f"sliding window difference must not be negative, got {show_ms(self.difference)}",
                hint="it is the greatest distance between records of one window",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """The default retention of rows."""
        return later(2 * self.difference, self.grace)

    @property
    def close_delay(self) -> int:
        """The stream time that must pass after a window's end before suppress emits it."""
        return self.grace


@suggesting_attributes
class SessionWindow(Value):
    """Windows of activity: records of a key at most ``gap`` apart are one session, both ends inclusive."""

    gap: int
    grace: int
    idle: int | None = None

    def __post_init__(self) -> None:
        if self.gap < 0:
            raise TopologyError(
                f"session gap must not be negative, got {show_ms(self.gap)}",
                hint="it is the greatest distance between neighbouring records of one session",
            )
        _check_grace(self.grace, self.idle)

    @property
    def retention(self) -> int:
        """The default retention of rows."""
        return later(self.gap, self.grace)

    @property
    def close_delay(self) -> int:
        """The stream time that must pass after a window's end before suppress emits it."""
        return later(self.gap, self.grace)


@suggesting_attributes
class UnlimitedWindow(Value):
    """One window from ``start`` to the end of time; records before ``start`` are in no window."""

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
    """The records of two streams that match: right.ts in [left.ts - before, left.ts + after].

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
        """The retention of each side's records."""
        return later(self.before + self.after, self.grace)


Window: TypeAlias = TimeWindow | SlidingWindow | SessionWindow | UnlimitedWindow


def _check_grace(grace: int, idle: int | None) -> None:
    if grace < 0:
        raise TopologyError(
            f"grace must not be negative, got {show_ms(grace)}", hint="leave it out to accept no late records"
        )
    if idle is not None and idle <= 0:
        raise TopologyError(
            f"idle must be more than zero, got {show_ms(idle)}",
            hint="leave it out to let only records advance stream time",
        )
