"""Windows, as a person writes them."""

from __future__ import annotations

from millstream.core.durations import Duration, show_ms, to_ms
from millstream.dsl.suggesting import suggesting
from millstream.errors import TopologyError
from millstream.plan.windows import JoinWindow, SessionWindow, SlidingWindow, TimeWindow, UnlimitedWindow


@suggesting
def tumbling(size: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> TimeWindow:
    """Windows of one size that follow each other without a gap, aligned to the epoch; the end is exclusive.

    Args:
        size: How long a window is.
        grace: How long after its end, in stream time, a window still takes late records.
        idle: If no record comes for this long on the wall clock, stream time goes on with the wall clock, so that the
            last windows close although the source is quiet. Default: time moves with records only.

    >>> tumbling("1m", grace="10s")
    TimeWindow(size=60000, advance=60000, grace=10000, idle=None)
    """
    ms = to_ms(size, "window size")
    return TimeWindow(ms, ms, to_ms(grace, "grace"), _idle(idle))


@suggesting
def hopping(size: Duration, advance: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> TimeWindow:
    """Windows of one size that begin every ``advance``, so that a record is in several of them; the end is exclusive.

    Args:
        size: How long a window is.
        advance: How far apart windows begin; no more than the size.
        grace: How long after its end, in stream time, a window still takes late records.
        idle: See `tumbling`.

    >>> hopping("10s", "5s")
    TimeWindow(size=10000, advance=5000, grace=0, idle=None)
    """
    return TimeWindow(to_ms(size, "window size"), to_ms(advance, "window advance"), to_ms(grace, "grace"), _idle(idle))


@suggesting
def sliding(difference: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> SlidingWindow:
    """Windows aligned to the records: every different set of records no more than ``difference`` apart.

    Both ends are inclusive.

    Args:
        difference: How far apart records of one window may be.
        grace: How long after its end, in stream time, a window still takes late records.
        idle: See `tumbling`.
    """
    return SlidingWindow(to_ms(difference, "window difference"), to_ms(grace, "grace"), _idle(idle))


@suggesting
def session(gap: Duration, *, grace: Duration = 0, idle: Duration | None = None) -> SessionWindow:
    """Windows of activity: a session of a key ends when no record came for longer than ``gap``.

    Both ends are inclusive: a session reaches from its first to its last record.

    Args:
        gap: How far apart neighbouring records of one session may be.
        grace: How long after its end and the gap, in stream time, a session still takes late records.
        idle: See `tumbling`.
    """
    return SessionWindow(to_ms(gap, "session gap"), to_ms(grace, "grace"), _idle(idle))


def unlimited(start: int = 0) -> UnlimitedWindow:
    """One window from ``start`` (milliseconds since the epoch) to the end of time."""
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
    """How near in time records of two streams must be to be joined: right.ts in [left.ts - before, left.ts + after].

    Args:
        difference: Both ``before`` and ``after``, unless these are given.
        before: How much earlier the right record may be than the left one. May be negative.
        after: How much later the right record may be than the left one. May be negative.
        grace: How long, in stream time, unmatched records of a left or outer join wait for late partners.
        idle: See `tumbling`.
        eager: Unmatched records of a left or outer join come out at once, and not when their window has closed, so
            that a record may come out unmatched and matched.

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
