"""Durations: from text to milliseconds and back."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from millstream.errors import DurationError

Duration: TypeAlias = int | str | timedelta
"""A length of time: a ``timedelta``, a string such as ``"5m"`` or ``"1h30m"``, or a number of milliseconds."""

END_OF_TIME = 2**63 - 1
"""The latest timestamp in milliseconds that a topic or a store can hold, as in Kafka."""

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+)(ms|[smhdw])")
_WHOLE = re.compile(r"\s*-?(?:\d+(?:ms|[smhdw]))+\s*")


def to_ms(duration: Duration, what: str = "duration") -> int:
    """Returns a duration in milliseconds.

    >>> to_ms("1h30m"), to_ms(timedelta(seconds=2)), to_ms(250)
    (5400000, 2000, 250)
    >>> to_ms("soon")
    Traceback (most recent call last):
    millstream.errors.DurationError: ...: duration: cannot read 'soon'
      hint: write milliseconds (5000), a timedelta, or text such as '500ms', '5s', '10m', '1h30m', '2d'
    """
    ms = _read(duration)
    if ms is None:
        hint = "write milliseconds (5000), a timedelta, or text such as '500ms', '5s', '10m', '1h30m', '2d'"
        raise DurationError(f"{what}: cannot read {duration!r}", hint=hint)
    if abs(ms) > END_OF_TIME:
        raise DurationError(f"{what}: {duration!r} is too long", hint="the longest duration is 2**63 - 1 milliseconds")
    return ms


def _read(duration: Duration) -> int | None:
    if isinstance(duration, bool):
        return None
    if isinstance(duration, int):
        return duration
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if not isinstance(duration, str) or not _WHOLE.fullmatch(duration):
        return None
    ms = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(duration))
    return -ms if duration.lstrip().startswith("-") else ms


def later(time: int, by: int) -> int:
    """Returns the sum of a time and a duration, at most END_OF_TIME.

    >>> later(5, 10), later(END_OF_TIME - 1, 10) == END_OF_TIME
    (15, True)
    """
    return min(time + by, END_OF_TIME)


def show_ms(ms: int) -> str:
    """Returns milliseconds as text with units.

    >>> show_ms(5_400_000), show_ms(1_500), show_ms(0)
    ('1h30m', '1s500ms', '0ms')
    """
    if ms <= 0:
        return f"{ms}ms"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, ms = divmod(ms, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
