"""Text to dates and times, by a pattern of ``java.time``; letters match in any case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from millstream.sql.functions.java.calendar import MS_PER_DAY, days_from_civil, is_leap, month_length
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

_TIME_FIELDS = frozenset(
    {
        "hour",
        "clock_hour",
        "hour_of_ampm",
        "clock_hour_of_ampm",
        "ampm",
        "minute",
        "second",
        "nano",
        "milli_of_day",
        "nano_of_day",
    }
)


class _NoMatchError(ValueError):
    """The text does not fit the pattern at a position."""


def parse_fields(text: str, pattern: str) -> Fields:
    """Reads the fields of a text, all of which must fit the pattern."""
    fields: Fields = {}
    try:
        _whole(parse_pattern(pattern), text, fields)
    except _NoMatchError as error:
        raise ValueError(
            f"Failed to parse '{text[:100]}' with formatter '{pattern[:100]}': "
            f"Text '{text[:100]}' could not be parsed at index {error.args[0]}"
        ) from None
    return fields


def _whole(elements: Sequence[Element], text: str, fields: Fields) -> None:
    end = _sequence(elements, text, 0, fields)
    if end < len(text):
        raise _NoMatchError(end)


def _sequence(elements: Sequence[Element], text: str, position: int, fields: Fields) -> int:
    for index, element in enumerate(elements):
        if isinstance(element, Number) and not element.is_fixed:
            position = _number(element, text, position, fields, _reserved(elements, index))
        else:
            position = _element(element, text, position, fields)
    return position


def _reserved(elements: Sequence[Element], index: int) -> int:
    """The digits that numbers of a fixed width, right behind a number, need."""
    width = 0
    for element in elements[index + 1 :]:
        if isinstance(element, Number) and element.is_fixed:
            width += element.minimum
        elif isinstance(element, Fraction):
            width += element.digits
        else:
            break
    return width


def _element(element: Element, text: str, position: int, fields: Fields) -> int:
    match element:
        case Text():
            end = position + len(element.text)
            if text[position:end].lower() != element.text.lower():
                raise _NoMatchError(position)
            return end
        case Number():
            return _number(element, text, position, fields, 0)
        case Name():
            return _name(element, text, position, fields)
        case Fraction():
            digits = text[position : position + element.digits]
            if len(digits) < element.digits or not _is_digits(digits):
                raise _NoMatchError(position)
            _set(fields, "nano", int(digits.ljust(9, "0")), position)
            return position + element.digits
        case Offset():
            return _offset(element, text, position, fields)
        case ZoneName():
            return _zone(text, position, fields)
        case Optional():
            found = dict(fields)
            try:
                end = _sequence(element.elements, text, position, found)
            except _NoMatchError:
                return position
            fields.update(found)
            return end
    raise TypeError(f"{element} cannot be parsed")


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _set(fields: Fields, name: str, value: Any, position: int) -> None:
    if fields.setdefault(name, value) != value:
        raise _NoMatchError(position)


def _number(element: Number, text: str, position: int, fields: Fields, reserved: int) -> int:
    start, sign = position, ""
    if text[position : position + 1] in {"+", "-"} and not element.is_fixed:
        sign = text[position]
        if sign == "+" and not element.exceeds:
            raise _NoMatchError(position)
        position += 1
    limit = element.maximum + reserved
    end = position
    while end < len(text) and end - position < limit and text[end].isascii() and text[end].isdigit():
        end += 1
    if reserved:
        end = position + max(element.minimum, end - position - reserved)
    digits = text[position:end]
    if not element.minimum <= len(digits) <= element.maximum or not _is_digits(digits):
        raise _NoMatchError(start)
    if element.exceeds and (len(digits) > element.minimum) != (sign == "+") and sign != "-":
        raise _NoMatchError(start)
    value = int(digits) + (2000 if element.reduced else 0)
    _set(fields, element.field, -value if sign == "-" else value, start)
    return end


def _name(element: Name, text: str, position: int, fields: Fields) -> int:
    names = sorted(texts_of(element.field, element.style).items(), key=lambda item: -len(item[1]))
    for value, name in names:
        if text[position : position + len(name)].lower() == name.lower():
            _set(fields, element.field, value, position)
            return position + len(name)
    raise _NoMatchError(position)


_OFFSET_TEXTS = {
    "+HHmm": re.compile(r"([+-])(\d\d)(\d\d)?", re.ASCII),
    "+HHMM": re.compile(r"([+-])(\d\d)(\d\d)", re.ASCII),
    "+HH:MM": re.compile(r"([+-])(\d\d):(\d\d)", re.ASCII),
    "+HHMMss": re.compile(r"([+-])(\d\d)(\d\d)(\d\d)?", re.ASCII),
    "+HH:MM:ss": re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?", re.ASCII),
    "GMT": re.compile(r"GMT(?:([+-])(\d{1,2})(?::(\d\d))?)?", re.ASCII | re.IGNORECASE),
    "GMT full": re.compile(r"GMT(?:([+-])(\d\d):(\d\d))?", re.ASCII | re.IGNORECASE),
}


def _offset(element: Offset, text: str, position: int, fields: Fields) -> int:
    match = _OFFSET_TEXTS[element.pattern].match(text, position)
    if match is not None:
        sign, hours, minutes, *seconds = match.groups()
        parts = [int(part or 0) for part in (hours, minutes, *seconds)]
        offset = sum(part * size for part, size in zip(parts, (3600, 60, 1), strict=False))
        if offset > 18 * 3600 or any(part > 59 for part in parts[1:]):
            raise _NoMatchError(position)
        _set(fields, "offset", -offset if sign == "-" else offset, position)
        return match.end()
    end = position + len(element.zero)
    if text[position:end].lower() != element.zero.lower():
        raise _NoMatchError(position)
    _set(fields, "offset", 0, position)
    return end


_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9/_+\-:]*|[+-]\d\d(?::?\d\d)?", re.ASCII)


def _zone(text: str, position: int, fields: Fields) -> int:
    match = _ZONE.match(text, position)
    candidate = match[0] if match is not None else ""
    while candidate:
        try:
            _set(fields, "zone", zone_of(_ZONE_NAMES.get(candidate.upper(), candidate)), position)
        except ValueError:
            candidate = candidate[:-1]
        else:
            return position + len(candidate)
    raise _NoMatchError(position)


_ZONE_NAMES = {
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "BST": "Europe/London",
    "CET": "Europe/Paris",
    "CEST": "Europe/Paris",
    "EET": "Europe/Helsinki",
    "EEST": "Europe/Helsinki",
    "WET": "Europe/Lisbon",
    "WEST": "Europe/Lisbon",
    "JST": "Asia/Tokyo",
    "IST": "Asia/Kolkata",
}


# ----- fields to values ----------------------------------------------------------------------------------------------


def _ranged(fields: Fields, name: str, low: int, high: int, default: int) -> int:
    value = int(fields.get(name, default))
    if not low <= value <= high:
        raise ValueError(f"Invalid value for {name} (valid values {low} - {high}): {value}")
    return value


def resolve_date(fields: Fields) -> int:
    """Returns the days of the fields; those that are missing are of 1970-01-01."""
    year = fields.get("year")
    if year is None:
        year = fields.get("year_of_era", 1970)
        if fields.get("era") == 0:
            year = 1 - year
    if "day_of_year" in fields:
        day_of_year = _ranged(fields, "day_of_year", 1, 366 if is_leap(year) else 365, 1)
        return days_from_civil(year, 1, 1) + day_of_year - 1
    month = _ranged(fields, "month", 1, 12, 1)
    day = min(_ranged(fields, "day", 1, 31, 1), month_length(year, month))
    days = days_from_civil(year, month, day)
    weekday = fields.get("weekday")
    if weekday is not None and "day" in fields and (days + 3) % 7 + 1 != weekday:
        raise ValueError("the day of the week does not agree with the date")
    return days


def resolve_time(fields: Fields) -> int:
    """Returns the milliseconds of the day; fields that are missing are 0. 24:00 is a whole day."""
    if "nano_of_day" in fields:
        return int(fields["nano_of_day"]) // 1_000_000
    if "milli_of_day" in fields:
        return _ranged(fields, "milli_of_day", 0, MS_PER_DAY - 1, 0)
    hour = _hour(fields)
    minute = _ranged(fields, "minute", 0, 59, 0)
    second = _ranged(fields, "second", 0, 59, 0)
    milli = _ranged(fields, "nano", 0, 999_999_999, 0) // 1_000_000
    if hour == 24 and (minute or second or milli):
        raise ValueError("24 is an hour only as 24:00")
    return ((hour * 60 + minute) * 60 + second) * 1000 + milli


def _hour(fields: Fields) -> int:
    half = _ranged(fields, "ampm", 0, 1, 0) * 12
    if "hour" in fields:
        return _ranged(fields, "hour", 0, 24, 0)
    if "clock_hour" in fields:
        return _ranged(fields, "clock_hour", 0, 24, 24) % 24
    if "clock_hour_of_ampm" in fields:
        return _ranged(fields, "clock_hour_of_ampm", 0, 12, 12) % 12 + half
    return _ranged(fields, "hour_of_ampm", 0, 11, 0) + half


def parse_timestamp(text: str, pattern: str, zone: Zone) -> int:
    """Reads an instant; a zone in the text goes before the one that is given.

    >>> parse_timestamp("1970-01-01 01:00 +0100", "yyyy-MM-dd HH:mm X", zone_of("UTC"))
    0
    """
    fields = parse_fields(text, pattern)
    local = resolve_date(fields) * MS_PER_DAY + resolve_time(fields)
    if "offset" in fields:
        return local - int(fields["offset"]) * 1000
    where = fields.get("zone", zone)
    assert isinstance(where, Zone)
    return local - where.offset_of_local(local)


def parse_local_date(text: str, pattern: str) -> int:
    """Reads a date, of which no part may be missing."""
    fields = parse_fields(text, pattern)
    has_day = "day_of_year" in fields or {"month", "day"} <= fields.keys()
    if not has_day or not fields.keys() & {"year", "year_of_era"}:
        raise ValueError(f"Unable to obtain a date from '{text[:100]}' with the pattern '{pattern[:100]}'")
    return resolve_date(fields)


def parse_local_time(text: str, pattern: str) -> int:
    """Reads a time of the day; fields of a date raise.

    >>> parse_local_time("9:30 pm", "h:mm a")
    77400000
    """
    fields = parse_fields(text, pattern)
    others = sorted(fields.keys() - _TIME_FIELDS)
    if others:
        raise ValueError(f"Time format contains date field: {others[0]}")
    return resolve_time(fields) % MS_PER_DAY
