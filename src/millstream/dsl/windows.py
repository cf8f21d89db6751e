"""Functions that define windows."""

from __future__ import annotations

from millstream.core.durations import Duration, show_ms, to_ms
from millstream.dsl.suggesting import suggesting
from millstream.errors import TopologyError
from millstream.plan.windows import JoinWindow, SessionWindow, SlidingWindow, TimeWindow, UnlimitedWindow


@suggesting
def tumbling(size: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> TimeWindow:
    """Defines windows of fixed size without gaps or overlap, aligned to the epoch. The end is exclusive.

    Args:
        size: Size of a window.
        grace: How long after its end, in stream time, a window accepts late records.
        idle: If no record arrives for this long on the wall clock, stream time advances with the wall clock, so that
            the last windows close although the source is idle. Default: only records advance stream time.

    >>> tumbling("1m", grace="10s")
    TimeWindow(size=60000, advance=60000, grace=10000, idle=None)
    """
    ms = to_ms(size, "window size")
    return TimeWindow(ms, ms, to_ms(grace, "grace"), _idle(idle))


@suggesting
def hopping(size: Duration, advance: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> TimeWindow:
    """Defines overlapping windows of fixed size that start every ``advance``. The end is exclusive.

    Args:
        size: Size of a window.
        advance: Time between the starts of two windows, no more than the size.
        grace: How long after its end, in stream time, a window accepts late records.
        idle: See `tumbling`.

    >>> hopping("10s", "5s")
    TimeWindow(size=10000, advance=5000, grace=0, idle=None)
    """
    return TimeWindow(to_ms(size, "window size"), to_ms(advance, "window advance"), to_ms(grace, "grace"), _idle(idle))


@suggesting
def sliding(difference: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> SlidingWindow:
    """Defines windows aligned to the records: one for each distinct set of records within ``difference``.

    Both ends are inclusive.

    Args:
        difference: The greatest time difference between records of one window.
        grace: How long after its end, in stream time, a window accepts late records.
        idle: See `tumbling`.
    """
    return SlidingWindow(to_ms(difference, "window difference"), to_ms(grace, "grace"), _idle(idle))


@suggesting
def session(gap: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> SessionWindow:
    """Defines sessions: a session of a key ends when no record arrives for longer than ``gap``.

    Both ends are inclusive: a session lasts from its first to its last record.

    Args:
        gap: The greatest time difference between neighbouring records of one session.
        grace: How long after its end and the gap, in stream time, a session accepts late records.
        idle: See `tumbling`.
    """
    return SessionWindow(to_ms(gap, "session gap"), to_ms(grace, "grace"), _idle(idle))


def unlimited(start: int = 0) -> UnlimitedWindow:
    """Defines one window without end, from ``start`` (milliseconds since the epoch)."""
    return UnlimitedWindow(start)


@suggesting
def join_window(
    difference: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = 0,
    idle: Duration | None = None,
    eager: bool = False,
) -> JoinWindow:
    """Defines the window of a join of streams: right.ts in [left.ts - before, left.ts + after].

    Args:
        difference: Default of ``before`` and ``after``.
        before: How much earlier than the left record the right record may be. May be negative.
        after: How much later than the left record the right record may be. May be negative.
        grace: How long, in stream time, unmatched records of a left or outer join wait for late partners.
        idle: See `tumbling`.
        eager: Emit unmatched records of a left or outer join immediately instead of when their window closes. A record
            may then be emitted unmatched and matched.

    >>> join_window("10s", after=0)
    JoinWindow(before=10000, after=0, grace=0, idle=None, eager=False)
    """
    default = to_ms(difference, "join window") if difference is not None else 0
    if default < 0:
        raise TopologyError(f"the time difference of a join window must not be negative, got {show_ms(default)}")
    return JoinWindow(
        before=default if before is None else to_ms(before, "before"),
        after=default if after is None else to_ms(after, "after"),
        grace=to_ms(grace, "grace"),
        idle=_idle(idle),
        eager=eager,
    )


def _idle(idle: Duration | None) -> int | None:
    return None if idle is None else to_ms(idle, "idle")
