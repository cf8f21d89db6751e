"""The functions of text, bytes and JSON. They take values that are not null unless they say so."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_ENCODINGS = ("ascii", "base64", "hex", "utf8")


def concat(*parts: Any) -> Any:
    """Joins the parts that are not null; with only nulls the result is the empty text."""
    found = [part for part in parts if part is not None]
    return (b"" if found and isinstance(found[0], bytes) else "").join(found)


def substring(text: Any, start: int, length: int | None = None) -> Any:
    """Counts from 1; a negative start counts from the end, and 0 is taken as 1."""
    begin = start - 1 if start > 0 else max(len(text) + start, 0) if start < 0 else 0
    return text[begin:] if length is None else text[begin : begin + max(length, 0)]


def split(text: str, delimiter: str) -> list[str]:
    """Splits at a delimiter; an empty one splits into characters."""
    return str.split(text, delimiter) if delimiter else list(text)


def contains(text: Any, part: Any) -> bool:
    """Whether the part occurs in the text."""
    if not isinstance(text, (str, bytes)):  # `in` would also look into lists and the keys of mappings
        raise TypeError(f"contains takes text, not a {type(text).__name__}")
    return part in text


def pad_left(text: str, length: int, padding: str) -> str | None:
    """Fills the text up at the left to the length, or cuts it to the length."""
    fill = _fill(text, length, padding)
    return None if fill is None else (fill + text)[:length]


def pad_right(text: str, length: int, padding: str) -> str | None:
    """Fills the text up at the right to the length, or cuts it to the length."""
    fill = _fill(text, length, padding)
    return None if fill is None else (text + fill)[:length]


def _fill(text: str, length: int, padding: str) -> str | None:
    if length < 0 or not padding:
        return None
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing]


def initcap(text: str) -> str:
    """Upper case for the first character of each word, lower case for the others; spaces stay as they are."""
    return re.sub(r"\S+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


def instr(text: str, part: str) -> int:
    """The position of the part, counted from 1, or 0 if it does not occur."""
    return str.find(text, part) + 1


def reverse(text: Any) -> Any:
    """The characters, bytes or elements in the opposite order."""
    return text[::-1]


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Compiles a LIKE pattern: ``%`` is any text, ``_`` any character, the rest is itself."""
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
    """Whether a regular expression is found in the text."""
    return re.search(pattern, text) is not None


def regexp_extract(text: str, pattern: str, group: int = 0) -> str | None:
    """The first match of a regular expression, or a group of it; null if there is none."""
    found = re.search(pattern, text)
    if found is None or not 0 <= group <= found.re.groups:
        return None
    return found[group]


def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    r"""Replaces every match; ``\1`` in the replacement is the first group."""
    return re.sub(pattern, replacement, text)


def _digest(algorithm: str, data: str | bytes) -> str:
    import hashlib  # only for those who use it: it loads OpenSSL

    raw = data.encode() if isinstance(data, str) else data
    return hashlib.new(algorithm, raw, usedforsecurity=False).hexdigest()


def md5(data: str | bytes) -> str:
    """The MD5 of the data in hexadecimal."""
    return _digest("md5", data)


def sha256(data: str | bytes) -> str:
    """The SHA-256 of the data in hexadecimal."""
    return _digest("sha256", data)


def check_encoding(name: str) -> str:
    """Returns the normal form of an encoding's name."""
    known = name.lower().replace("-", "")
    if known not in _ENCODINGS:
        raise ValueError(f"unknown encoding {name!r}; there are {', '.join(_ENCODINGS)}")
    return known


def to_bytes(text: str, encoding: str) -> bytes:
    """The bytes that a text stands for in an encoding."""
    known = check_encoding(encoding)
    if known == "hex":
        return bytes.fromhex(text)
    if known == "base64":
        import base64

        return base64.b64decode(text, validate=True)
    return str.encode(text, known)


def from_bytes(data: bytes, encoding: str) -> str:
    """The text that stands for bytes in an encoding."""
    known = check_encoding(encoding)
    if known == "hex":
        return bytes.hex(data)
    if known == "base64":
        import base64

        return base64.b64encode(data).decode()
    return bytes.decode(data, known)


@lru_cache(maxsize=512)
def json_path(path: str) -> tuple[str | int, ...]:
    """Reads a path such as ``a.b[0]`` or ``$.a.b[0]`` into its steps."""
    rest = path.removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    for part in rest.split(".") if rest else []:
        found = re.fullmatch(r"([^\[\]]*)((?:\[-?\d+\])*)", part)
        if found is None or not part:
            raise ValueError(f"cannot read the JSON path {path!r}; write it as 'a.b[0]'")
        steps += [found[1]] if found[1] else []
        steps += [int(i) for i in re.findall(r"-?\d+", found[2])]
    return tuple(steps)


def json_extract(document: Any, path: str) -> Any:
    """The value at a path of a JSON text, or of a value that has been read already; null if it is not there."""
    if isinstance(document, (str, bytes)):
        import json  # only for those who use it

        document = json.loads(document)
    for step in json_path(path):
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        elif isinstance(document, list) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return None
    return document
