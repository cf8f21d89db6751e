"""The functions of time. They take values that are not null; a timestamp is an int, milliseconds since 1970 in UTC.

None of them reads a clock: the same record always gives the same result.
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
"""Units of the same length everywhere, in milliseconds."""
MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FIRST_MONDAY = 4 * _DAY  # 1970-01-05; weeks begin on Mondays

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
"""What ``extract`` can take from a timestamp."""


def check_unit(unit: str) -> str:
    """Returns the normal form of a unit of time: ``HOURS`` is ``hour``."""
    return _known(unit, [*FIXED, *MONTHS], "unit")


def check_part(part: str) -> str:
    """Returns the normal form of a part of a timestamp."""
    return _known(part, PARTS, "part")


def _known(word: str, known: Any, what: str) -> str:
    found = word.lower()
    found = found if found in known else found.removesuffix("s")
    if found in known:
        return found
    near = suggestion(word.lower(), known)
    raise ValueError(f"unknown {what} of time {word!r}; " + (near or f"there are {', '.join(known)}"))


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Returns the time zone of a name such as ``Europe/Brussels``."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    import zoneinfo  # only for those who use it

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"unknown time zone {name!r}") from None


def date_trunc(unit: str, ts: int) -> int:
    """The begin of the unit, in UTC, that a timestamp lies in; weeks begin on Mondays."""
    known = check_unit(unit)
    if known in FIXED:
        offset = _FIRST_MONDAY if known == "week" else 0
        return ts - (ts - offset) % FIXED[known]
    moment = to_datetime(ts)
    month = moment.month - (moment.month - 1) % MONTHS[known]
    return to_millis(datetime(moment.year, month, 1, tzinfo=UTC))


def timestamp_add(unit: str, count: int, ts: int) -> int:
    """A timestamp moved by a number of units; a month's day that does not exist becomes the last of the month."""
    known = check_unit(unit)
    if known in FIXED:
        return ts + count * FIXED[known]
    moment = to_datetime(ts)
    months = moment.year * 12 + moment.month - 1 + count * MONTHS[known]
    year, month = months // 12, months % 12 + 1
    import calendar  # only for those who use it

    day = min(moment.day, calendar.monthrange(year, month)[1])
    return to_millis(moment.replace(year=year, month=month, day=day))


def extract(part: str, moment: Any) -> int:
    """A part of a timestamp or a date, in UTC."""
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif not isinstance(moment, datetime):
        moment = to_datetime(moment)
    elif moment.tzinfo:
        moment = moment.astimezone(UTC)
    return int(PARTS[check_part(part)](moment))


def format_timestamp(ts: int, pattern: str, zone: str = "UTC") -> str:
    """The text of a timestamp by a pattern of strftime codes."""
    return to_datetime(ts).astimezone(zone_of(zone)).strftime(pattern)


def parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    """The timestamp that a text says by a pattern of strptime codes; a zone in the text wins."""
    moment = datetime.strptime(text, pattern)  # noqa: DTZ007 - the zone follows
    return to_millis(moment if moment.tzinfo else moment.replace(tzinfo=zone_of(zone)))


def unix_timestamp(ts: int) -> int:
    """The milliseconds since 1970 of a timestamp, as a number."""
    return ts + 0  # which a datetime refuses, so that it is tried again as milliseconds


_ISO = r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?"


def timestamp_of_text(text: str) -> int:
    """Reads ``2020-05-01T10:15:30.123`` or any shorter form of it, with an optional zone after the time."""
    found = re.fullmatch(_ISO, text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a timestamp")
    year, month, day, hour, minute, second = (int(found[i] or (i in (2, 3))) for i in range(1, 7))
    micros = int((found[7] or "").ljust(6, "0")[:6])
    return to_millis(datetime(year, month, day, hour, minute, second, micros, _offset(found[8])))


def _offset(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def timestamp_text(ts: int) -> str:
    """Writes ``2020-05-01T10:15:30.123``, in UTC.

    >>> timestamp_text(0)
    '1970-01-01T00:00:00.000'
    """
    return to_datetime(ts).replace(tzinfo=None).isoformat(timespec="milliseconds")
