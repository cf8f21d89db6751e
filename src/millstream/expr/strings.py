"""Functions of text, bytes and JSON. Arguments are not null unless a docstring mentions null."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_ENCODINGS = ("ascii", "base64", "hex", "utf8")


def concat(*parts: Any) -> Any:
    """Joins the parts that are not null; the result of only nulls is the empty text."""
    present = [part for part in parts if part is not None]
    return (b"" if present and isinstance(present[0], bytes) else "").join(present)


def substring(text: Any, start: int, length: int | None = None) -> Any:
    """Returns a part of a text. Positions count from 1; a negative start counts from the end, and 0 is taken as 1."""
    begin = start - 1 if start > 0 else max(len(text) + start, 0) if start < 0 else 0
    return text[begin:] if length is None else text[begin : begin + max(length, 0)]


def split(text: str, delimiter: str) -> list[str]:
    """Splits at a delimiter; an empty one splits into characters."""
    return str.split(text, delimiter) if delimiter else list(text)


def contains(text: Any, part: Any) -> bool:
    """Whether the part occurs in the text."""
    if not isinstance(text, (str, bytes)):  # `in` would also search lists and the keys of mappings
        raise TypeError(f"contains takes text, not a {type(text).__name__}")
    return part in text


def pad_left(text: str, length: int, padding: str) -> str | None:
    """Pads the text on the left, or truncates it, to the length."""
    fill = _fill(text, length, padding)
    return None if fill is None else (fill + text)[:length]


def pad_right(text: str, length: int, padding: str) -> str | None:
    """Pads the text on the right, or truncates it, to the length."""
    fill = _fill(text, length, padding)
    return None if fill is None else (text + fill)[:length]


def _fill(text: str, length: int, padding: str) -> str | None:
    if length < 0 or not padding:
        return None
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing]


def initcap(text: str) -> str:
    """Writes the first character of each word in upper case, the others in lower case; white space is unchanged."""
    return re.sub(r"\S+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


def instr(text: str, part: str) -> int:
    """Returns the position of the part, from 1; 0 if it does not occur."""
    return str.find(text, part) + 1


def reverse(text: Any) -> Any:
    """Returns the characters, bytes or elements in reverse order."""
    return text[::-1]


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Compiles a LIKE pattern: ``%`` matches any text, ``_`` any character, other characters themselves."""
    if len(escape) > 1:
        raise ValueError(f"the escape of LIKE is one character, not {escape!r}")
    out, chars = "", iter(pattern)
    for char in chars:
        if escape and char == escape:
            literal = next(chars, None)
            if literal is None:
                raise ValueError(f"the LIKE pattern {pattern!r} ends in its escape character")
            out += re.escape(literal)
        else:
            out += ".*" if char == "%" else "." if char == "_" else re.escape(char)
    return re.compile(out, re.DOTALL)


def like(text: str, pattern: str, escape: str = "") -> bool:
    """Whether the whole text matches a LIKE pattern."""
    return like_pattern(pattern, escape).fullmatch(text) is not None


def regexp_like(text: str, pattern: str) -> bool:
    """Whether a regular expression matches a part of the text."""
    return re.search(pattern, text) is not None


def regexp_extract(text: str, pattern: str, group: int = 0) -> str | None:
    """Returns the first match of a regular expression, or a group of it; null if there is none."""
    match = re.search(pattern, text)
    if match is None or not 0 <= group <= match.re.groups:
        return None
    return match[group]


def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    r"""Replaces every match; ``\1`` in the replacement is the first group."""
    return re.sub(pattern, replacement, text)


def _digest(algorithm: str, data: str | bytes) -> str:
    import hashlib  # loaded on first use: it loads OpenSSL

    raw = data.encode() if isinstance(data, str) else data
    return hashlib.new(algorithm, raw, usedforsecurity=False).hexdigest()


def md5(data: str | bytes) -> str:
    """Returns the MD5 of the data in hexadecimal."""
    return _digest("md5", data)


def sha256(data: str | bytes) -> str:
    """Returns the SHA-256 of the data in hexadecimal."""
    return _digest("sha256", data)


def check_encoding(name: str) -> str:
    """Returns the normal form of an encoding's name."""
    normal = name.lower().replace("-", "")
    if normal not in _ENCODINGS:
        raise ValueError(f"unknown encoding {name!r}; there are {', '.join(_ENCODINGS)}")
    return normal


def to_bytes(text: str, encoding: str) -> bytes:
    """Decodes a text in an encoding to bytes."""
    normal = check_encoding(encoding)
    if normal == "hex":
        return bytes.fromhex(text)
    if normal == "base64":
        import base64

        return base64.b64decode(text, validate=True)
    return str.encode(text, normal)


def from_bytes(data: bytes, encoding: str) -> str:
    """Encodes bytes as text."""
    normal = check_encoding(encoding)
    if normal == "hex":
        return bytes.hex(data)
    if normal == "base64":
        import base64

        return base64.b64encode(data).decode()
    return bytes.decode(data, normal)


@lru_cache(maxsize=512)
def json_path(path: str) -> tuple[str | int, ...]:
    """Parses a path such as ``a.b[0]`` or ``$.a.b[0]`` into its steps."""
    inner = path.removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    for part in inner.split(".") if inner else []:
        match = re.fullmatch(r"([^\[\]]*)((?:\[-?\d+\])*)", part)
        if match is None or not part:
            raise ValueError(f"cannot read the JSON path {path!r}; write it as 'a.b[0]'")
        steps += [match[1]] if match[1] else []
        steps += [int(i) for i in re.findall(r"-?\d+", match[2])]
    return tuple(steps)


def json_extract(document: Any, path: str) -> Any:
    """Returns the value at a path of a JSON text, or of parsed JSON; null if there is none."""
    if isinstance(document, (str, bytes)):
        import json  # loaded on first use

        document = json.loads(document)
    for step in json_path(path):
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        elif isinstance(document, list) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return None
    return document
