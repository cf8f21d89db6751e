"""Dates and times to text, by a pattern of ``java.time``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.sql.functions.java.calendar import MS_PER_DAY, civil_from_days, days_from_civil
from millstream.sql.functions.java.time_patterns import (
    Element,
    Fraction,
    Name,
    Number,
    Offset,
    Optional,
    Text,
    ZoneName,
    parse_pattern,
    texts_of,
)
from millstream.sql.functions.java.zones import Zone, zone_of

Fields = dict[str, Any]


def date_fields(days: int) -> Fields:
    """Returns the fields of a date. Weeks are those of the United States: they start on Sunday."""
    year, month, day = civil_from_days(days)
    day_of_year = days - days_from_civil(year, 1, 1) + 1
    weekday = (days + 3) % 7 + 1
    week_year, week = _week(days, year)
    first_of_month = days - day + 1
    return {
        "year": year,
        "year_of_era": year if year > 0 else 1 - year,
        "era": int(year > 0),
        "month": month,
        "day": day,
        "day_of_year": day_of_year,
        "quarter": (month + 2) // 3,
        "weekday": weekday,
        "local_weekday": weekday % 7 + 1,
        "week_year": week_year,
        "week": week,
        "week_of_month": (day - 1 + (first_of_month + 4) % 7) // 7 + 1,
        "aligned_day": (day - 1) % 7 + 1,
    }


def _week(days: int, year: int) -> tuple[int, int]:
    sunday = days - (days + 4) % 7
    if sunday + 6 >= days_from_civil(year + 1, 1, 1):
        return year + 1, 1
    first = days_from_civil(year, 1, 1)
    first_sunday = first - (first + 4) % 7
    return year, (sunday - first_sunday) // 7 + 1


def time_fields(milliseconds: int) -> Fields:
    """Returns the fields of a time of the day."""
    seconds, fraction = divmod(milliseconds, 1000)
    hour = seconds // 3600
    return {
        "hour": hour,
        "clock_hour": hour or 24,
        "hour_of_ampm": hour % 12,
        "clock_hour_of_ampm": hour % 12 or 12,
        "ampm": hour // 12,
        "minute": seconds // 60 % 60,
        "second": seconds % 60,
        "nano": fraction * 1_000_000,
        "milli_of_day": milliseconds,
        "nano_of_day": milliseconds * 1_000_000,
    }


def format_timestamp(milliseconds: int, pattern: str, zone: Zone | None = None) -> str:
    """Formats an instant in a zone, UTC if none is given.

    >>> format_timestamp(0, "yyyy-MM-dd'T'HH:mm:ss.SSS X EEE", zone_of("+0530"))
    '1970-01-01T05:30:00.000 +0530 Thu'
    """
    where = zone or zone_of("UTC")
    offset = where.offset_at(milliseconds)
    days, clock = divmod(milliseconds + offset, MS_PER_DAY)
    zone_fields = {"offset": offset // 1000, "zone": where.name, "zone_name": where.abbreviation_at(milliseconds)}
    return _format(parse_pattern(pattern), {**date_fields(days), **time_fields(clock), **zone_fields})


def format_date(days: int, pattern: str) -> str:
    """Formats a date; letters of times raise.

    >>> format_date(0, "dd MMM yyyy")
    '01 Jan 1970'
    """
    return _format(parse_pattern(pattern), date_fields(days))


def format_time(milliseconds: int, pattern: str) -> str:
    """Formats a time of the day; letters of dates raise.

    >>> format_time(45_296_789, "hh:mm:ss a")
    '12:34:56 PM'
    """
    return _format(parse_pattern(pattern), time_fields(milliseconds))


def _format(elements: Sequence[Element], fields: Fields) -> str:
    return "".join(_element(element, fields) for element in elements)


def _element(element: Element, fields: Fields) -> str:
    match element:
        case Text():
            return element.text
        case Number():
            return _number(element, _value(fields, element.field))
        case Name():
            return texts_of(element.field, element.style)[_value(fields, element.field)]
        case Fraction():
            return f"{_value(fields, 'nano'):09d}"[: element.digits]
        case Offset():
            return _offset(element, _value(fields, "offset"))
        case ZoneName():
            return str(_value(fields, "zone" if element.letter == "V" else "zone_name"))
        case Optional():
            try:
                return _format(element.elements, fields)
            except LookupError:
                return ""
    raise TypeError(f"{element} cannot be formatted")


class _UnsupportedFieldError(LookupError):
    def __str__(self) -> str:
        return f"Unsupported field: {self.args[0]}: the value has no such part"


def _value(fields: Fields, name: str) -> Any:
    if name not in fields:
        raise _UnsupportedFieldError(name)
    return fields[name]


def _number(element: Number, value: int) -> str:
    if element.reduced:
        return f"{abs(value) % 100:02d}"
    digits = str(abs(value))
    if len(digits) > element.maximum:
        raise ValueError(f"Field {element.field} cannot be printed: {value} has more than {element.maximum} digits")
    sign = "-" if value < 0 else "+" if element.exceeds and len(digits) > element.minimum else ""
    return f"{sign}{digits.rjust(element.minimum, '0')}"


def _offset(element: Offset, seconds: int) -> str:
    if seconds == 0:
        return element.zero
    sign, rest = "-" if seconds < 0 else "+", abs(seconds)
    hours, minutes, second = rest // 3600, rest // 60 % 60, rest % 60
    if element.pattern == "GMT":
        shown = f":{minutes:02d}" if minutes or second else ""
        return f"GMT{sign}{hours}{shown}" + (f":{second:02d}" if second else "")
    if element.pattern == "GMT full":
        return f"GMT{sign}{hours:02d}:{minutes:02d}" + (f":{second:02d}" if second else "")
    colon = ":" if ":" in element.pattern else ""
    shown = f"{sign}{hours:02d}"
    if "MM" in element.pattern or minutes:
        shown += f"{colon}{minutes:02d}"
    return f"{shown}{colon}{second:02d}" if "ss" in element.pattern and second else shown
