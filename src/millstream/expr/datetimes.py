"""Functions of timestamps and dates. Arguments are never null; a timestamp is an int, milliseconds since 1970 in UTC.

No function reads a clock: the result depends on the record only.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

from millstream.errors import suggestion
from millstream.expr.values import to_datetime, to_millis

_DAY = 86_400_000
FIXED = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": _DAY, "week": 7 * _DAY}
"""Units of a fixed length, in milliseconds."""
MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FIRST_MONDAY = 4 * _DAY  # 1970-01-05; weeks start on Mondays

PARTS = {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "week": lambda t: t.isocalendar()[1],
    "day": lambda t: t.day,
    "dow": lambda t: t.isoweekday() % 7,
    "isodow": lambda t: t.isoweekday(),
    "doy": lambda t: t.timetuple().tm_yday,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "millisecond": lambda t: t.microsecond // 1000,
}
"""The parts of a timestamp for ``extract``."""


def check_unit(unit: str) -> str:
    """Returns the normal form of a unit of time: ``HOURS`` is ``hour``."""
    return _normal_form(unit, [*FIXED, *MONTHS], "unit")


def check_part(part: str) -> str:
    """Returns the normal form of a part of a timestamp."""
    return _normal_form(part, PARTS, "part")


def _normal_form(word: str, words: Any, what: str) -> str:
    normal = word.lower()
    normal = normal if normal in words else normal.removesuffix("s")
    if normal in words:
        return normal
    similar = suggestion(word.lower(), words)
    raise ValueError(f"unknown {what} of time {word!r}; " + (similar or f"there are {', '.join(words)}"))


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Returns the time zone of a name such as ``Europe/Brussels``."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    import zoneinfo  # loaded on first use

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"unknown time zone {name!r}") from None


def date_trunc(unit: str, ts: int) -> int:
    """Returns the start of the unit that contains a timestamp, in UTC; weeks start on Mondays."""
    name = check_unit(unit)
    if name in FIXED:
        offset = _FIRST_MONDAY if name == "week" else 0
        return ts - (ts - offset) % FIXED[name]
    moment = to_datetime(ts)
    month = moment.month - (moment.month - 1) % MONTHS[name]
    return to_millis(datetime(moment.year, month, 1, tzinfo=UTC))


def timestamp_add(unit: str, count: int, ts: int) -> int:
    """Returns a timestamp plus a number of units. A day that the month does not have becomes the last of the month."""
    name = check_unit(unit)
    if name in FIXED:
        return ts + count * FIXED[name]
    moment = to_datetime(ts)
    months = moment.year * 12 + moment.month - 1 + count * MONTHS[name]
    year, month = months // 12, months % 12 + 1
    import calendar  # loaded on first use

    day = min(moment.day, calendar.monthrange(year, month)[1])
    return to_millis(moment.replace(year=year, month=month, day=day))


def extract(part: str, moment: Any) -> int:
    """Returns a part of a timestamp or a date, in UTC."""
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif not isinstance(moment, datetime):
        moment = to_datetime(moment)
    elif moment.tzinfo:
        moment = moment.astimezone(UTC)
    return int(PARTS[check_part(part)](moment))


def format_timestamp(ts: int, pattern: str, zone: str = "UTC") -> str:
    """Formats a timestamp by a pattern of strftime codes."""
    return to_datetime(ts).astimezone(zone_of(zone)).strftime(pattern)


def parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    """Parses a timestamp by a pattern of strptime codes; a zone in the text has precedence."""
    moment = datetime.strptime(text, pattern)  # noqa: DTZ007 - the zone follows
    return to_millis(moment if moment.tzinfo else moment.replace(tzinfo=zone_of(zone)))


def unix_timestamp(ts: int) -> int:
    """Returns the milliseconds since 1970 of a timestamp, as a number."""
    return ts + 0  # raises for a datetime, so that `retry` calls it again with milliseconds


_ISO = r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?"


def timestamp_of_text(text: str) -> int:
    """Parses ``2020-05-01T10:15:30.123`` or any shorter form of it, with an optional zone after the time."""
    match = re.fullmatch(_ISO, text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    year, month, day, hour, minute, second = (int(match[i] or (i in (2, 3))) for i in range(1, 7))
    micros = int((match[7] or "").ljust(6, "0")[:6])
    return to_millis(datetime(year, month, day, hour, minute, second, micros, _offset(match[8])))


def _offset(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def timestamp_text(ts: int) -> str:
    """Formats a timestamp as ``2020-05-01T10:15:30.123``, in UTC.

    >>> timestamp_text(0)
    '1970-01-01T00:00:00.000'
    """
    return to_datetime(ts).replace(tzinfo=None).isoformat(timespec="milliseconds")
