"""Dates, times and intervals in PostgreSQL's text format, exactly, also outside of the range of Python's own types."""

from __future__ import annotations

import re

MICROS_PER_DAY = 86_400_000_000
MICROS_PER_MONTH = 2_629_800_000_000
"""Of a month of 365.25 / 12 days, as in ``io.debezium.time.MicroDuration``."""

# The numbers for infinite dates and times: those of PostgreSQL's date type, and those that Debezium has for timestamps.
INFINITE_DAYS = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
INFINITE_MICROS = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
INFINITE_MILLIS = {name: micros // 1000 for name, micros in INFINITE_MICROS.items()}

_DATE = re.compile(r"(\d+)-(\d\d)-(\d\d)( BC)?")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?")
_COMMON_ZONED = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)\+00")
"""Timestamps of the years 1 to 9999 in UTC, which need no arithmetic."""

_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?"
)


def days(text: str) -> int:
    """Returns a date as days since 1970-01-01, in the Gregorian calendar.

    >>> days("1970-01-02"), days("0001-01-01 BC"), days("infinity")
    (1, -719528, 2147483647)

    Raises:
        ValueError: The text is not a date.
    """
    infinite = INFINITE_DAYS.get(text)
    if infinite is not None:
        return infinite
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("it is not a date")
    year, month, day, before = match.groups()
    return _days(1 - int(year) if before else int(year), int(month), int(day))


def _days(year: int, month: int, day: int) -> int:
    # Years begin with March here: the leap day is the last day of a year.
    year -= month <= 2
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


def time_of_day(text: str) -> int:
    """Returns a time of day in microseconds.

    >>> time_of_day("00:00:01.5"), time_of_day("24:00:00")
    (1500000, 86400000000)

    Raises:
        ValueError: The text is not a time.
    """
    micros, offset = _time(text)
    if offset:
        raise ValueError("it has a time zone")
    return micros


def _time(text: str) -> tuple[int, int]:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("it is not a time")
    hours, minutes, seconds, fraction, sign, *offset = match.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if sign is None:
        return micros, 0
    east = sum(int(part or 0) * size for part, size in zip(offset, (3600, 60, 1), strict=True))
    return micros, -east if sign == "-" else east


def timestamp_micros(text: str) -> int:
    """Returns a timestamp without time zone in microseconds since 1970-01-01 00:00.

    >>> timestamp_micros("1970-01-01 00:00:00.25"), timestamp_micros("1969-12-31 23:59:59")
    (250000, -1000000)

    Raises:
        ValueError: The text is not a timestamp.
    """
    infinite = INFINITE_MICROS.get(text)
    if infinite is not None:
        return infinite
    date, _, time = text.partition(" ")
    if time.endswith(" BC"):
        date, time = date + " BC", time[:-3]
    return days(date) * MICROS_PER_DAY + time_of_day(time)


def zoned_timestamp(text: str) -> str:
    """Returns a timestamp of a session in UTC as ISO 8601, with the digits of the fraction that it has.

    >>> zoned_timestamp("2026-01-02 03:04:05.67+00"), zoned_timestamp("0044-03-15 12:00:00+00 BC")
    ('2026-01-02T03:04:05.67Z', '-0043-03-15T12:00:00Z')

    Raises:
        ValueError: The text is not a timestamp in UTC.
    """
    common = _COMMON_ZONED.fullmatch(text)
    if common is not None:
        return f"{common[1]}T{common[2]}Z"
    if text in INFINITE_MICROS:
        return text
    date, _, time = text.partition(" ")
    before = time.endswith(" BC")
    time = time.removesuffix(" BC")
    if not time.endswith("+00"):
        raise ValueError("it is not in UTC")
    days(date)
    time_of_day(time)
    year, rest = date[:-6], date[-6:]
    if before and year != "0001":
        year = f"-{int(year) - 1:04}"
    elif before:
        year = "0000"
    elif len(year) > 4:
        year = f"+{year}"
    return f"{year}{rest}T{time[:-3]}Z"


def zoned_time(text: str) -> str:
    """Returns a time with time zone as ISO 8601 in UTC.

    >>> zoned_time("13:51:30.123789+02"), zoned_time("01:00:00+05:30")
    ('11:51:30.123789Z', '19:30:00Z')

    Raises:
        ValueError: The text is not a time with time zone.
    """
    micros, east = _time(text)
    if east:
        micros = (micros - east * 1_000_000) % MICROS_PER_DAY
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}Z"


def interval(text: str) -> tuple[int, int, int]:
    """Returns months, days and microseconds of an interval in the style ``iso_8601``.

    >>> interval("P1Y2M3DT4H5M6.5S"), interval("PT-0.5S")
    ((14, 3, 14706500000), (0, 0, -500000))

    Raises:
        ValueError: The text is not a finite interval.
    """
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError("it is not a finite interval")
    years, months, days_, hours, minutes, sign, seconds, fraction = match.groups()
    micros = int(seconds or 0) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    micros = -micros if sign else micros
    micros += (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
    return int(years or 0) * 12 + int(months or 0), int(days_ or 0), micros


def interval_micros(text: str) -> int:
    """Returns an interval in microseconds, with months of 30.4375 days."""
    months, days_, micros = interval(text)
    return months * MICROS_PER_MONTH + days_ * MICROS_PER_DAY + micros


def interval_iso(text: str) -> str:
    """Returns an interval with all its parts.

    >>> interval_iso("P1Y2M3DT4H5M6.5S"), interval_iso("PT0S")
    ('P1Y2M3DT4H5M6.5S', 'P0Y0M0DT0H0M0S')
    """
    months, days_, micros = interval(text)
    years, months = _toward_zero(months, 12)
    hours, rest = _toward_zero(micros, 3_600_000_000)
    minutes, rest = _toward_zero(rest, 60_000_000)
    seconds, fraction = _toward_zero(rest, 1_000_000)
    sign = "-" if rest < 0 else ""
    shown = f".{abs(fraction):06}".rstrip("0") if fraction else ""
    return f"P{years}Y{months}M{days_}DT{hours}H{minutes}M{sign}{abs(seconds)}{shown}S"


def _toward_zero(number: int, size: int) -> tuple[int, int]:
    quotient, rest = divmod(abs(number), size)
    return (quotient, rest) if number >= 0 else (-quotient, -rest)
