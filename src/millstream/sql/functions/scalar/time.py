"""Functions of dates, times and timestamps."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.sql.functions.arithmetic import truncated_division
from millstream.sql.functions.casts import wrap_long
from millstream.sql.functions.catalogue import ScalarFunction, on, scalar
from millstream.sql.functions.java.calendar import MS_PER_DAY
from millstream.sql.functions.java.simple_dates import parse_simple_date
from millstream.sql.functions.java.time_format import format_date, format_time, format_timestamp
from millstream.sql.functions.java.time_parse import parse_local_date, parse_local_time, parse_timestamp
from millstream.sql.functions.java.zones import system_zone, zone_of

_UNITS = {"DAY": MS_PER_DAY, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "MILLISECOND": 1}


def _now() -> int:
    return time.time_ns() // 1_000_000


def _duration(unit: str, count: int) -> int:
    return _UNITS[unit.upper().removesuffix("S")] * count


def _date_add(sign: int) -> Callable[[str, int, int], int]:
    # What is left of a day is dropped toward 1970, as Java divides.
    return lambda unit, count, days: truncated_division(days * MS_PER_DAY + sign * _duration(unit, count), MS_PER_DAY)


def _time_add(sign: int) -> Callable[[str, int, int], int]:
    return lambda unit, count, clock: (clock + sign * _duration(unit, count)) % MS_PER_DAY


def _timestamp_add(sign: int) -> Callable[[str, int, int], int]:
    return lambda unit, count, instant: wrap_long(instant + sign * _duration(unit, count))


def _adding(name: str, type_: str, verb: str, example: tuple[str, str], function: Callable[..., int]) -> ScalarFunction:
    documentation = f"{verb} a number of DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS."
    return scalar(name, "time", documentation, example, on(f"(UNIT, INT, {type_}) -> {type_}", function))


def _format_timestamp(instant: int, pattern: str, zone: str = "UTC") -> str:
    return format_timestamp(instant, pattern, zone_of(zone))


def _timestamp_to_string(instant: int, pattern: str, zone: str | None = None) -> str:
    return format_timestamp(instant, pattern, system_zone() if zone is None else zone_of(zone))


def _parse_timestamp(text: str, pattern: str, zone: str = "UTC") -> int:
    return parse_timestamp(text, pattern, zone_of(zone))


def _string_to_timestamp(text: str, pattern: str, zone: str | None = None) -> int:
    return parse_timestamp(text, pattern, system_zone() if zone is None else zone_of(zone))


def _convert_zone(instant: int, source: str, target: str) -> int:
    return instant + zone_of(target).offset_at(instant) - zone_of(source).offset_at(instant)


FUNCTIONS = (
    scalar(
        "UNIX_TIMESTAMP",
        "time",
        "Returns the current time, or a timestamp, in milliseconds since 1970.",
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(5))", "5"),
        on("() -> BIGINT", _now),
        on("(TIMESTAMP) -> BIGINT", lambda instant: instant),
        deterministic=False,
    ),
    scalar(
        "UNIX_DATE",
        "time",
        "Returns the current date, or a date, in days since 1970.",
        ("UNIX_DATE(FROM_DAYS(5))", "5"),
        on("() -> INT", lambda: _now() // MS_PER_DAY),
        on("(DATE) -> INT", lambda days: days),
        deterministic=False,
    ),
    scalar(
        "FROM_UNIXTIME",
        "time",
        "Returns the timestamp of milliseconds since 1970.",
        ("FROM_UNIXTIME(0)", "1970-01-01T00:00:00.000"),
        on("(BIGINT) -> TIMESTAMP", lambda instant: instant),
    ),
    scalar(
        "FROM_DAYS",
        "time",
        "Returns the date of days since 1970.",
        ("FROM_DAYS(31)", "1970-02-01"),
        on("(INT!) -> DATE", lambda days: days),
    ),
    _adding("DATEADD", "DATE", "Adds to a date", ("DATEADD(DAYS, 2, FROM_DAYS(0))", "1970-01-03"), _date_add(1)),
    _adding("DATESUB", "DATE", "Takes from a date", ("DATESUB(DAYS, 1, FROM_DAYS(0))", "1969-12-31"), _date_add(-1)),
    _adding("TIMEADD", "TIME", "Adds to a time", ("TIMEADD(HOURS, 2, '23:30')", "01:30"), _time_add(1)),
    _adding("TIMESUB", "TIME", "Takes from a time", ("TIMESUB(MINUTES, 45, '00:30')", "23:45"), _time_add(-1)),
    _adding(
        "TIMESTAMPADD",
        "TIMESTAMP",
        "Adds to a timestamp",
        ("TIMESTAMPADD(SECONDS, 1, FROM_UNIXTIME(0))", "1970-01-01T00:00:01.000"),
        _timestamp_add(1),
    ),
    _adding(
        "TIMESTAMPSUB",
        "TIMESTAMP",
        "Takes from a timestamp",
        ("TIMESTAMPSUB(MILLISECONDS, 1, FROM_UNIXTIME(0))", "1969-12-31T23:59:59.999"),
        _timestamp_add(-1),
    ),
    scalar(
        "FORMAT_DATE",
        "time",
        "Formats a date by a pattern of java.time.",
        ("FORMAT_DATE(FROM_DAYS(0), 'dd/MM/yyyy')", "01/01/1970"),
        on("(DATE, STRING) -> STRING", format_date),
    ),
    scalar(
        "FORMAT_TIME",
        "time",
        "Formats a time by a pattern of java.time.",
        ("FORMAT_TIME('10:15:30', 'HH.mm')", "10.15"),
        on("(TIME, STRING) -> STRING", format_time),
    ),
    scalar(
        "FORMAT_TIMESTAMP",
        "time",
        "Formats a timestamp by a pattern of java.time, in UTC or a zone.",
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'HH:mm z', 'Europe/Berlin')", "01:00 CET"),
        on("(TIMESTAMP, STRING) -> STRING", _format_timestamp),
        on("(TIMESTAMP, STRING, STRING) -> STRING", _format_timestamp),
    ),
    scalar(
        "PARSE_DATE",
        "time",
        "Reads a date by a pattern of SimpleDateFormat.",
        ("PARSE_DATE('5 Jan 1970', 'd MMM yyyy')", "1970-01-05"),
        on("(STRING, STRING) -> DATE", parse_simple_date),
    ),
    scalar(
        "PARSE_TIME",
        "time",
        "Reads a time by a pattern of java.time.",
        ("PARSE_TIME('9:30 PM', 'h:mm a')", "21:30"),
        on("(STRING, STRING) -> TIME", parse_local_time),
    ),
    scalar(
        "PARSE_TIMESTAMP",
        "time",
        "Reads a timestamp by a pattern of java.time, in UTC or a zone; a zone in the text wins.",
        ("PARSE_TIMESTAMP('1970-01-01 01:00', 'yyyy-MM-dd HH:mm', 'Europe/Berlin')", "1970-01-01T00:00:00.000"),
        on("(STRING, STRING) -> TIMESTAMP", _parse_timestamp),
        on("(STRING, STRING, STRING) -> TIMESTAMP", _parse_timestamp),
    ),
    scalar(
        "STRINGTOTIMESTAMP",
        "time",
        "Reads a timestamp by a pattern of java.time into milliseconds, in the zone of the machine or a given one.",
        ("STRINGTOTIMESTAMP('1970-01-01 00:01', 'yyyy-MM-dd HH:mm', 'UTC')", "60000"),
        on("(STRING, STRING) -> BIGINT", _string_to_timestamp),
        on("(STRING, STRING, STRING) -> BIGINT", _string_to_timestamp),
    ),
    scalar(
        "TIMESTAMPTOSTRING",
        "time",
        "Formats milliseconds since 1970 by a pattern of java.time, in the zone of the machine or a given one.",
        ("TIMESTAMPTOSTRING(60000, 'HH:mm', 'UTC')", "00:01"),
        on("(BIGINT!, STRING) -> STRING", _timestamp_to_string),
        on("(BIGINT!, STRING, STRING) -> STRING", _timestamp_to_string),
    ),
    scalar(
        "STRINGTODATE",
        "time",
        "Reads a date by a pattern of java.time into days since 1970.",
        ("STRINGTODATE('1970-01-03', 'yyyy-MM-dd')", "2"),
        on("(STRING, STRING) -> INT", parse_local_date),
    ),
    scalar(
        "DATETOSTRING",
        "time",
        "Formats days since 1970 by a pattern of java.time.",
        ("DATETOSTRING(2, 'yyyy-MM-dd')", "1970-01-03"),
        on("(INT!, STRING) -> STRING", format_date),
    ),
    scalar(
        "CONVERT_TZ",
        "time",
        "Moves a timestamp from one zone to another one by the difference of their offsets.",
        ("CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', 'Europe/Berlin')", "1970-01-01T01:00:00.000"),
        on("(TIMESTAMP, STRING, STRING) -> TIMESTAMP", _convert_zone),
    ),
)
