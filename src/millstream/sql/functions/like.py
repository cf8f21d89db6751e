"""LIKE: ``%`` stands for any text, ``_`` for one character, neither of them for a line break."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Matcher = Callable[[str], bool]


@lru_cache(maxsize=1024)
def like_matcher(pattern: str, escape: str | None = None) -> Matcher:
    """Returns the function that matches whole texts.

    Parts between ``%`` are searched one after the other, so the time is bounded by the product of both lengths.

    >>> matches = like_matcher("a%b_d")
    >>> matches("aXXbcd"), matches("abcde")
    (True, False)

    Raises:
        ValueError: The pattern ends with the escape character.
    """
    parts = _parts(pattern, escape)
    if len(parts) == 1:
        whole = _compile(parts[0])
        return lambda text: whole.fullmatch(text) is not None
    first, *middle, last = [_compile(part) for part in parts]
    tail = len(parts[-1])
    flat = [item for part in parts for item in (*part, _ANY)][:-1]

    def matches(text: str) -> bool:
        if _LINE_BREAK.search(text):
            return _simulate(flat, text)
        start = first.match(text)
        if start is None:
            return False
        position = start.end()
        for part in middle:
            found = part.search(text, position)
            if found is None:
                return False
            position = found.end()
        return len(text) - tail >= position and last.fullmatch(text, len(text) - tail) is not None

    return matches


_LINE_BREAK = re.compile("[\n\r\u0085\u2028\u2029]")
_NO_BREAK = "[^\n\r\u0085\u2028\u2029]"
_ANY = "%any"


def _simulate(pattern: list[str | None], text: str) -> bool:
    """Matches character by character, with the set of all places in the pattern that fit so far."""
    places = _skip_any({0}, pattern)
    for character in text:
        is_break = _LINE_BREAK.match(character) is not None
        following = set()
        for place in places:
            item = pattern[place] if place < len(pattern) else ""
            if item == character or (item is None and not is_break):
                following.add(place + 1)
            elif item is _ANY and not is_break:
                following.add(place)
        places = _skip_any(following, pattern)
    return len(pattern) in places


def _skip_any(places: set[int], pattern: list[str | None]) -> set[int]:
    reached = set(places)
    for place in sorted(places):
        while place < len(pattern) and pattern[place] is _ANY:
            place += 1  # noqa: PLW2901  (the loop follows one chain of %)
            reached.add(place)
    return reached


def _parts(pattern: str, escape: str | None) -> list[list[str | None]]:
    """Splits a pattern at ``%``; None stands for ``_``."""
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if escape is not None and character == escape:
            literal = next(characters, None)
            if literal is None:
                raise ValueError(f"LIKE pattern {pattern!r} must not end with its escape character {escape!r}")
            parts[-1].append(literal)
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append(None if character == "_" else character)
    return parts


def _compile(part: list[str | None]) -> re.Pattern[str]:
    return re.compile("".join(_NO_BREAK if item is None else re.escape(item) for item in part))
