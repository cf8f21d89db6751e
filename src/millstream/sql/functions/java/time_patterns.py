"""Patterns of ``java.time.format.DateTimeFormatter``: text to elements that format and parse."""

from __future__ import annotations

import re
from functools import lru_cache

from millstream.core.frozen import Frozen

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def texts_of(field: str, style: int) -> dict[int, str]:
    """Returns the names of the values of a field; style 3 is short, 4 full, 5 one letter."""
    if field == "ampm":
        return {0: "AM", 1: "PM"}
    if field == "era":
        return {0: "Before Christ", 1: "Anno Domini"} if style == 4 else {0: "BC", 1: "AD"}
    if field == "quarter":
        names = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"] if style == 4 else ["Q1", "Q2", "Q3", "Q4"]
        return dict(enumerate(names, start=1))
    full = MONTHS if field == "month" else WEEKDAYS
    length = {3: 3, 5: 1}.get(style, 20)
    return {index: name[:length] for index, name in enumerate(full, start=1)}


class Element(Frozen):
    """A part of a pattern."""


class Text(Element):
    """Characters that stand for themselves."""

    text: str


class Number(Element):
    """A number of ``minimum`` to ``maximum`` digits; ``exceeds`` says that more than the minimum need a plus sign."""

    field: str
    minimum: int = 1
    maximum: int = 19
    exceeds: bool = False
    reduced: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether the number of digits is fixed."""
        return self.minimum == self.maximum


class Name(Element):
    """The name of a month, of a day of the week, or the like."""

    field: str
    style: int


class Fraction(Element):
    """Digits of the fraction of a second."""

    digits: int


class Offset(Element):
    """An offset from UTC: Java's pattern, such as ``+HH:MM``, and the text for no offset."""

    pattern: str
    zero: str


class ZoneName(Element):
    """The id of a zone (``V``), its short or full name (``z``)."""

    letter: str


class Optional(Element):
    """A part that a text may leave out."""

    elements: tuple[Element, ...]


_FIELDS = {
    "u": "year",
    "y": "year_of_era",
    "D": "day_of_year",
    "M": "month",
    "L": "month",
    "d": "day",
    "Q": "quarter",
    "q": "quarter",
    "Y": "week_year",
    "w": "week",
    "W": "week_of_month",
    "E": "weekday",
    "e": "local_weekday",
    "c": "local_weekday",
    "F": "aligned_day",
    "a": "ampm",
    "h": "clock_hour_of_ampm",
    "K": "hour_of_ampm",
    "k": "clock_hour",
    "H": "hour",
    "m": "minute",
    "s": "second",
    "A": "milli_of_day",
    "n": "nano",
    "N": "nano_of_day",
    "G": "era",
}
_PIECE = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|(\[)|(\])|([#{}])|(.)", re.DOTALL)


@lru_cache(maxsize=512)
def parse_pattern(pattern: str) -> tuple[Element, ...]:
    """Reads a pattern.

    >>> [type(element).__name__ for element in parse_pattern("yyyy-MM'T'[.SSS]X")]
    ['Number', 'Text', 'Number', 'Text', 'Optional', 'Offset']

    Raises:
        ValueError: It is no pattern.
    """
    open_groups: list[list[Element]] = [[]]
    position = 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        assert match is not None
        position = match.end()
        letter, quoted, opening, closing, reserved, other = match.groups()
        if letter is not None:
            open_groups[-1].append(_letter(letter, len(match[0]), pattern))
        elif quoted is not None:
            open_groups[-1].append(Text(quoted.replace("''", "'") or "'"))
        elif opening:
            open_groups.append([])
        elif closing and len(open_groups) > 1:
            group = Optional(tuple(open_groups.pop()))
            open_groups[-1].append(group)
        elif reserved or closing or other == "'":
            raise ValueError(f"Pattern {pattern[:100]!r} has an unexpected {match[0]!r}")
        else:
            open_groups[-1].append(Text(other))
    while len(open_groups) > 1:
        group = Optional(tuple(open_groups.pop()))
        open_groups[-1].append(group)
    return tuple(open_groups[0])


def _letter(letter: str, count: int, pattern: str) -> Element:
    special = {
        "S": _fraction,
        "X": _offset,
        "x": _offset,
        "Z": _offset,
        "O": _offset,
        "V": _zone,
        "z": _zone,
        "v": _zone,
    }
    if letter in special:
        return special[letter](letter, count, pattern)
    field = _FIELDS.get(letter)
    if field is None:
        raise ValueError(f"Unknown pattern letter: {letter}, in {pattern[:100]!r}")
    if letter in "uyY":
        if count == 2:
            return Number(field, 2, 2, reduced=True)
        return Number(field, count, 19, exceeds=count >= 4)
    if letter in "EGa" or (letter in "MLQqec" and count > 2):
        limit = 1 if letter == "a" else 5
        if count > limit:
            raise _too_many(letter, pattern)
        name_field = "weekday" if field == "local_weekday" else field
        return Name(name_field, max(count, 3))
    if letter in "AnN":
        return Number(field, count, 19)
    if letter == "D":
        if count > 3:
            raise _too_many(letter, pattern)
        return Number(field, count, 3 if count > 1 else 19)
    if count > 2 or (count > 1 and letter in "WF"):
        raise _too_many(letter, pattern)
    return Number(field, 2, 2) if count == 2 else Number(field)


def _too_many(letter: str, pattern: str) -> ValueError:
    return ValueError(f"Too many pattern letters: {letter}, in {pattern[:100]!r}")


def _fraction(letter: str, count: int, pattern: str) -> Element:
    if count > 9:
        raise _too_many(letter, pattern)
    return Fraction(count)


_OFFSETS = ("+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss")
_ZERO_OFFSETS = ("+00", "+0000", "+00:00", "+0000", "+00:00")


def _offset(letter: str, count: int, pattern: str) -> Element:
    if count > 5 or (letter == "O" and count not in {1, 4}):
        raise _too_many(letter, pattern)
    if letter == "O" or (letter == "Z" and count == 4):
        return Offset("GMT full" if count == 4 else "GMT", "GMT")
    if letter == "Z":
        return Offset("+HH:MM:ss", "Z") if count == 5 else Offset("+HHMM", "+0000")
    return Offset(_OFFSETS[count - 1], "Z" if letter == "X" else _ZERO_OFFSETS[count - 1])


def _zone(letter: str, count: int, pattern: str) -> Element:
    if letter == "V" and count != 2:
        raise ValueError(f"Pattern letter count must be 2: V, in {pattern[:100]!r}")
    if count > 4:
        raise _too_many(letter, pattern)
    return ZoneName("z" if letter == "v" else letter)
