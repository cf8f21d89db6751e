"""Java's regular expressions, run by the `regex` library with a time limit for each search.

A search that takes longer than `TIMEOUT` seconds raises: patterns come from users, and backtracking can take
exponential time. The limit keeps lookaround and back references, which an engine with linear time does not have.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from millstream.sql.functions.java.strings import check_length

TIMEOUT = 1.0
"""Seconds that one search may take."""

MAX_PATTERN = 10_000
"""The longest pattern, in characters."""

_LINE_BREAKS = "\\n\\r\\u0085\\u2028\\u2029"
_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z_0-9",
    "s": " \\t\\n\\x0b\\f\\r",
    "h": " \\t\\u00a0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    "v": "\\n\\x0b\\f\\r\\u0085\\u2028\\u2029",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Any:
    """Compiles a pattern of Java.

    Raises:
        ValueError: It is too long, or no regular expression.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a regular expression has at most {MAX_PATTERN} characters, not {len(pattern)}")
    regex = importlib.import_module("regex")
    try:
        return regex.compile(translate(pattern), regex.VERSION1)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"Invalid regular expression pattern: {pattern[:200]} ({error})") from None


def groups_of(pattern: str) -> int:
    """Returns the number of groups of a pattern of Java."""
    return int(compile_pattern(pattern).groups)


def translate(pattern: str) -> str:
    r"""Writes a pattern of Java in the syntax of `regex`.

    >>> translate(r"\d+\Qa.b\E\z")
    '[0-9]+a\\.b\\Z'
    """
    result: list[str] = []
    depth, index = 0, 0
    dot = "." if "(?s" in pattern or "(?is" in pattern or "(?ms" in pattern else f"[^{_LINE_BREAKS}]"
    while index < len(pattern):
        character = pattern[index]
        if character == "\\":
            text, index = _escape(pattern, index, inside=depth > 0)
            result.append(text)
            continue
        if character == "[":
            depth += 1
            if pattern[index + 1 : index + 2] == "^":
                index += 1
                character = "[^"
        elif character == "]" and depth:
            depth -= 1
        elif character == "." and not depth:
            character = dot
        result.append(character)
        index += 1
    return "".join(result)


def _escape(pattern: str, index: int, *, inside: bool) -> tuple[str, int]:
    """Translates the escape at an index, and returns the index after it."""
    following = pattern[index + 1 : index + 2]
    after = index + 2
    if following == "Q":
        end = pattern.find("\\E", after)
        quoted = pattern[after:] if end < 0 else pattern[after:end]
        text = "".join(f"\\{one}" if not one.isalnum() and one.isascii() else one for one in quoted)
        return text, len(pattern) if end < 0 else end + 2
    if following.lower() in _CLASSES:
        content = _CLASSES[following.lower()]
        if following.isupper():
            return f"[^{content}]", after
        return content if inside else f"[{content}]", after
    if following in {"p", "P"}:
        return _property(pattern, index, inside=inside)
    if following in {"Z", "z"} and not inside:
        return ("\\Z" if following == "z" else f"(?=[{_LINE_BREAKS}]?\\Z)"), after
    if following == "e":
        return "\\x1b", after
    if following == "x" and pattern[after : after + 1] == "{":
        end = pattern.find("}", after)
        return f"\\U{int(pattern[after + 1 : end], 16):08x}", end + 1
    return pattern[index:after], after


def _property(pattern: str, index: int, *, inside: bool) -> tuple[str, int]:
    negated = pattern[index + 1] == "P"
    start = index + 2
    if pattern[start : start + 1] != "{":
        return pattern[index : start + 1], start + 1
    end = pattern.find("}", start)
    if end < 0:
        raise ValueError(f"Invalid regular expression pattern: {pattern[:200]} (a property is not closed)")
    name = pattern[start + 1 : end]
    content = _POSIX.get(name)
    if content is None:
        plain = name.removeprefix("Is") if not name.startswith("In") else name
        plain = plain.removeprefix("java")
        return f"\\{pattern[index + 1]}{{{plain}}}", end + 1
    if negated:
        return f"[^{content}]", end + 1
    return content if inside else f"[{content}]", end + 1


# ----- searching -----------------------------------------------------------------------------------------------------


def find(pattern: str, text: str) -> Any:
    """Returns the first match, or None."""
    return compile_pattern(pattern).search(text, timeout=TIMEOUT)


def find_all(pattern: str, text: str) -> Iterator[Any]:
    """Yields all matches."""
    return iter(compile_pattern(pattern).finditer(text, timeout=TIMEOUT))


def replace_all(text: str, pattern: str, replacement: str) -> str:
    """Replaces all matches; ``$1`` and ``${name}`` in the replacement are groups.

    >>> replace_all("ann bob", "([a-z])([a-z]+)", "$2$1")
    'nna obb'
    """
    compiled = compile_pattern(pattern)
    template = _template(replacement, compiled.groups, frozenset(compiled.groupindex))
    size = 0

    def expand(match: Any) -> str:
        nonlocal size
        shown = "".join(part if isinstance(part, str) else match[part[0]] or "" for part in template)
        size += len(shown)
        check_length(size)
        return shown

    result = compiled.sub(expand, text, timeout=TIMEOUT)
    assert isinstance(result, str)
    return result


@lru_cache(maxsize=512)
def _template(replacement: str, groups: int, names: frozenset[str]) -> tuple[str | tuple[int | str], ...]:
    """Splits a replacement into texts and groups (in tuples)."""
    parts: list[str | tuple[int | str]] = []
    index = 0
    while index < len(replacement):
        character = replacement[index]
        index += 1
        if character == "\\":
            if index == len(replacement):
                raise ValueError("a replacement must not end with a backslash")
            parts.append(replacement[index])
            index += 1
        elif character != "$":
            parts.append(character)
        elif replacement[index : index + 1] == "{":
            end = replacement.find("}", index)
            name = replacement[index + 1 : end]
            if end < 0 or name not in names:
                raise ValueError(f"No group with name {{{name}}}")
            parts.append((name,))
            index = end + 1
        else:
            group, index = _group_number(replacement, index, groups)
            parts.append((group,))
    return tuple(parts)


def _group_number(replacement: str, index: int, groups: int) -> tuple[int, int]:
    if not replacement[index : index + 1].isdigit():
        raise ValueError("Illegal group reference: a digit or {name} must follow $")
    group = int(replacement[index])
    index += 1
    while replacement[index : index + 1].isdigit() and group * 10 + int(replacement[index]) <= groups:
        group = group * 10 + int(replacement[index])
        index += 1
    if group > groups:
        raise ValueError(f"No group {group}")
    return group, index


def split(text: str, pattern: str) -> list[str]:
    """Splits a text at the matches of a pattern.

    Empty parts are kept, unless the pattern matches the empty text: then the text is split as ``Pattern.split`` does.

    >>> split("a1b22c1", "[0-9]"), split("abc", ""), split("a1b", "[0-9]*")
    (['a', 'b', '', 'c', ''], ['a', 'b', 'c'], ['a', '', 'b'])
    """
    compiled = compile_pattern(pattern)
    parts, start = [], 0
    can_be_empty = compiled.fullmatch("", timeout=TIMEOUT) is not None
    for match in compiled.finditer(text, timeout=TIMEOUT):
        if match.end() == match.start() == 0:
            continue
        parts.append(text[start : match.start()])
        start = match.end()
    parts.append(text[start:])
    while can_be_empty and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
