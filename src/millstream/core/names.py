"""Validation of names.

Topics, stores, operators and applications follow Kafka's rule for topic names, because topic names contain all of them.
"""

from __future__ import annotations

import re

from millstream.errors import InvalidNameError

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str, what: str) -> str:
    """Returns the name if it is legal, else raises an error with the reason.

    >>> check_name("word-counts", "topic")
    'word-counts'
    >>> check_name("word counts", "topic")
    Traceback (most recent call last):
    millstream.errors.InvalidNameError: ...: topic name 'word counts' is not allowed: ' ' may not occur in it
      hint: use letters, digits, '.', '_' and '-', at most 249 characters
    """
    problem = _problem(name)
    if problem is None:
        return name
    shown = repr(name) if isinstance(name, str) and len(name) <= 80 else f"{str(name)[:60]!r}…"
    hint = f"use letters, digits, '.', '_' and '-', at most {MAX_LENGTH} characters"
    raise InvalidNameError(f"{what} name {shown} is not allowed: {problem}", hint=hint)


def _problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"it is a {type(name).__name__}, not a string"
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return "'.' and '..' are reserved"
    if len(name) > MAX_LENGTH:
        return f"it has {len(name)} characters"
    if not _LEGAL.fullmatch(name):
        bad = next(c for c in name if not _LEGAL.fullmatch(c))
        return f"{bad!r} may not occur in it"
    return None
