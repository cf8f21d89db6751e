"""Text to dates by the patterns of ``java.text.SimpleDateFormat``, which is lenient.

Numbers may have any width, values outside of their range carry over, and text behind the last field is ignored.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from millstream.sql.functions.java.calendar import MS_PER_DAY, days_from_civil
from millstream.sql.functions.java.time_patterns import MONTHS, WEEKDAYS
from millstream.sql.functions.java.zones import zone_of

_PIECE = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'])", re.DOTALL)
_LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_NUMBER = re.compile(r"\s*(-?\d+)", re.ASCII)
_OFFSET = re.compile(r"(?:GMT)?([+-])(\d{1,2}):?(\d\d)?", re.ASCII)


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[tuple[str, str, int], ...]:
    """Splits a pattern into (letter, "", count) and ("", text, 0)."""
    pieces, position = [], 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            raise ValueError(f"Unterminated quote in pattern {pattern[:100]!r}")
        letter, quoted, other = match.groups()
        if letter is not None and letter not in _LETTERS:
            raise ValueError(f"Illegal pattern character '{letter}' in {pattern[:100]!r}")
        if letter is not None:
            pieces.append((letter, "", len(match[0])))
        else:
            pieces.append(("", other if quoted is None else quoted.replace("''", "'") or "'", 0))
        position = match.end()
    return tuple(pieces)


def parse_simple_date(text: str, pattern: str) -> int:
    """Reads a date into days.

    >>> parse_simple_date("1970-01-32 and more", "yyyy-MM-dd")
    31

    Raises:
        ValueError: The text does not fit, or has a time of the day that is not midnight.
    """
    fields: dict[str, int] = {}
    pieces, position = _pieces(pattern), 0
    for index, (letter, literal, count) in enumerate(pieces):
        if letter:
            abutting = index + 1 < len(pieces) and _is_number(*pieces[index + 1])
            position = _field(letter, count, text, position, fields, abutting=abutting)
        elif text.startswith(literal, position):
            position += len(literal)
        else:
            raise _unparseable(text, position)
    milliseconds = _resolve(fields)
    if milliseconds % MS_PER_DAY:
        raise ValueError(f"Date format contains time field: {pattern[:100]!r}")
    return milliseconds // MS_PER_DAY


def _is_number(letter: str, _literal: str, count: int) -> bool:
    return bool(letter) and (letter in "yYwWDdFuHkKhmsS" or (letter in "ML" and count < 3))


def _unparseable(text: str, position: int) -> ValueError:
    return ValueError(f"Unparseable date: '{text[:100]}', at index {position}")


def _field(letter: str, count: int, text: str, position: int, fields: dict[str, int], *, abutting: bool) -> int:
    if _is_number(letter, "", count):
        limited = text[: position + count] if abutting else text
        match = _NUMBER.match(limited, position)
        if match is None:
            raise _unparseable(text, position)
        value = int(match[1][:18])
        if letter in "yY" and count <= 2 and len(match[1]) == 2:
            value = _century(value)
        fields["M" if letter == "L" else letter] = value
        return match.end()
    if letter in "zZX":
        return _zone(text, position, fields)
    return _name(letter, text, position, fields)


def _century(value: int) -> int:
    """Two digits are a year from 80 years ago to 20 years ahead."""
    start = datetime.now(UTC).year - 80
    return start + (value - start) % 100


def _name(letter: str, text: str, position: int, fields: dict[str, int]) -> int:
    names: dict[str, int] = {}
    if letter == "G":
        names = {"BC": 0, "AD": 1}
    elif letter == "a":
        names = {"AM": 0, "PM": 1}
    else:
        full = MONTHS if letter in "ML" else WEEKDAYS
        names = {shown: index for index, name in enumerate(full, start=1) for shown in (name, name[:3])}
    rest = text[position:].lower()
    for name in sorted(names, key=len, reverse=True):
        if rest.startswith(name.lower()):
            fields["M" if letter == "L" else letter] = names[name]
            return position + len(name)
    raise _unparseable(text, position)


def _zone(text: str, position: int, fields: dict[str, int]) -> int:
    offset = _OFFSET.match(text, position)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        fields["zone"] = (-minutes if offset[1] == "-" else minutes) * 60_000
        return offset.end()
    word = re.compile(r"[A-Za-z/_]+").match(text, position)
    if word is None:
        raise _unparseable(text, position)
    fields["zone"] = zone_of(word[0]).offset_at(0)
    return word.end()


def _resolve(fields: dict[str, int]) -> int:
    """Adds the fields up as a lenient calendar does."""
    year = fields.get("y", fields.get("Y", 1970))
    if fields.get("G") == 0:
        year = 1 - year
    if "D" in fields and "M" not in fields:
        days = days_from_civil(year, 1, 1) + fields["D"] - 1
    else:
        years, month = divmod(fields.get("M", 1) - 1, 12)
        days = days_from_civil(year + years, month + 1, 1) + fields.get("d", 1) - 1
    if "H" in fields or "k" in fields:
        hour = fields["H"] if "H" in fields else fields["k"] % 24
    else:
        hour = fields.get("h", fields.get("K", 0)) % 12 + 12 * fields.get("a", 0)
    clock = ((hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)) * 1000 + fields.get("S", 0)
    return days * MS_PER_DAY + clock - fields.get("zone", 0)
