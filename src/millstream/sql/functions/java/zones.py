"""Time zones by the names that ``java.time.ZoneId`` takes; times are milliseconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from millstream.core.frozen import Frozen

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
# Python's datetime ends with the year 9999; zones far outside of it keep the offset that they have at its ends.
_FIRST, _LAST = -62_135_000_000, 253_402_000_000


class Zone(Frozen):
    """A time zone: the offset in milliseconds at an instant and at a local time."""

    name: str
    offset_at: Callable[[int], int]
    offset_of_local: Callable[[int], int]
    abbreviation_at: Callable[[int], str]


def _seconds(milliseconds: int) -> int:
    return max(_FIRST, min(_LAST, milliseconds // 1000))


def _milliseconds(delta: timedelta | None) -> int:
    return 0 if delta is None else round(delta.total_seconds() * 1000)


def _fixed(name: str, offset: int) -> Zone:
    return Zone(name, lambda _instant: offset, lambda _local: offset, lambda _instant: name)


def _region(name: str) -> Zone:
    info = ZoneInfo(name)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def at(instant: int) -> datetime:
        return (epoch + timedelta(seconds=_seconds(instant))).astimezone(info)

    def of_local(local: int) -> int:
        # The first of two times, when clocks go back; the time before the gap, when they go forward.
        wall = (epoch + timedelta(seconds=_seconds(local))).replace(tzinfo=info)
        return _milliseconds(wall.utcoffset())

    return Zone(
        name, lambda instant: _milliseconds(at(instant).utcoffset()), of_local, lambda i: at(i).tzname() or name
    )


@lru_cache(maxsize=256)
def zone_of(name: str) -> Zone:
    """Returns a zone.

    >>> zone_of("Europe/Berlin").offset_at(0), zone_of("+0230").offset_at(0), zone_of("Z").offset_at(0)
    (3600000, 9000000, 0)

    Raises:
        ValueError: There is no such zone.
    """
    if name in {"Z", "UTC", "GMT", "UT"}:
        return _fixed(name, 0)
    match = _OFFSET.fullmatch(name)
    if match is not None:
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        offset = ((hours * 60 + minutes) * 60 + seconds) * 1000
        if offset <= 18 * 3_600_000 and minutes < 60 and seconds < 60:
            return _fixed(name, -offset if match[1] == "-" else offset)
    try:
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]*", name):
            return _region(name)
    except (ValueError, OSError, LookupError):
        pass
    raise ValueError(f"Invalid time zone: {name[:50]!r}")


def system_zone() -> Zone:
    """Returns the zone of this machine."""

    def offset_at(instant: int) -> int:
        return time.localtime(_seconds(instant)).tm_gmtoff * 1000

    def offset_of_local(local: int) -> int:
        guess = offset_at(local)
        return offset_at(local - guess)

    return Zone("system", offset_at, offset_of_local, lambda instant: time.localtime(_seconds(instant)).tm_zone)
