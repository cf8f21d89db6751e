"""Functions of text and bytes."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from millstream.sql.functions.casts import java_trim
from millstream.sql.functions.catalogue import on, scalar
from millstream.sql.functions.java.strings import check_length, from_units, length_of, units_of

Sequence = TypeVar("Sequence", str, bytes)


def _concat(empty: Any) -> Callable[..., Any]:
    def concat(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        check_length(sum(map(len, present)))
        return empty.join(present)

    return concat


def _concat_ws(*values: Any) -> Any:
    if len(values) < 2:
        raise ValueError("CONCAT_WS needs a separator and at least one value")
    separator, *parts = values
    if separator is None:
        return None
    present = [part for part in parts if part is not None]
    check_length(sum(map(len, present)) + len(separator) * len(present))
    return separator.join(present)


_WHITESPACE = re.compile(r"([ \t\n\x0b\f\r]+)")


def _initcap(text: str) -> str:
    r"""What Java's ``\s`` matches separates words; it stays, but not in front."""
    words = _WHITESPACE.split(text.lower())
    start = 2 if words[0] == "" and len(words) > 1 else 0
    return "".join(word if index % 2 else word[:1].upper() + word[1:] for index, word in enumerate(words[start:]))


def substring(value: Sequence, position: int, length: int | None = None) -> Sequence:
    """Returns a part of a value; positions count from 1, negative ones from the end."""
    size = len(value)
    start = max(size + position, 0) if position < 0 else min(max(position - 1, 0), size)
    end = size if length is None else min(start + max(length, 0), size)
    return value[start:end]


def _substring_text(text: str, position: int, length: int | None = None) -> str:
    if text.isascii():
        return substring(text, position, length)
    return from_units(substring(units_of(text), position, length))


def _instr(text: str | None, part: str | None, position: int = 1, occurrence: int = 1) -> int:
    if text is None or part is None or part == "":
        return 0
    if occurrence < 1 or position == 0:
        return 0
    text, part = units_of(text), units_of(part)
    if abs(position) > len(text):
        return 0
    # A search from the end finds parts that end at the position or before it; occurrences may overlap.
    found = position - 2 if position > 0 else len(text) + position + 2 - len(part)
    for _ in range(occurrence):
        found = text.find(part, found + 1) if position > 0 else text.rfind(part, 0, max(found - 1 + len(part), 0))
        if found < 0:
            return 0
    return found + 1


def _pad(value: Sequence, length: int, padding: Sequence, *, left: bool) -> Sequence | None:
    if not padding or length < 0:
        return None
    check_length(length)
    missing = max(length - len(value), 0)
    fill = (padding * (missing // len(padding) + 1))[:missing]
    return fill + value[: length - missing] if left else value[:length] + fill


def _pad_text(*, left: bool) -> Callable[[str, int, str], str | None]:
    def pad(text: str, length: int, padding: str) -> str | None:
        padded = _pad(units_of(text), length, units_of(padding), left=left)
        return None if padded is None else from_units(padded)

    return pad


def _pad_bytes(*, left: bool) -> Callable[[bytes, int, bytes], bytes | None]:
    return lambda value, length, padding: _pad(value, length, padding, left=left)


def _split_text(text: str, delimiter: str) -> list[str]:
    return text.split(delimiter) if delimiter else list(text) or [""]


def _split_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    return value.split(delimiter) if delimiter else [value[i : i + 1] for i in range(len(value))] or [b""]


def _split_to_map(text: str, entries: str, pair: str) -> dict[str, str] | None:
    if not entries or not pair or entries == pair:
        return None
    # A value ends at a second delimiter of its entry.
    parts = [entry.split(pair) for entry in text.split(entries) if pair in entry]
    return {part[0]: part[1] for part in parts}


def _chr_code(code: int) -> str | None:
    return chr(code) if 0 <= code <= 0x10FFFF else None


_UNICODE = re.compile(r"\\u+([0-9a-fA-F]{4})")


def _chr_text(text: str) -> str | None:
    if len(text) < 6 or not text.startswith("\\u"):
        return None
    return from_units(_UNICODE.sub(lambda match: chr(int(match[1], 16)), text))


def _elt(position: int, *values: str | None) -> str | None:
    return values[position - 1] if 1 <= position <= len(values) else None


def _field(text: str | None, *values: str | None) -> int:
    return 0 if text is None or text not in values else values.index(text) + 1


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def _uuid_of(value: bytes) -> str | None:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else None


def _replace(text: str, old: str, new: str) -> str:
    check_length(len(text) + (text.count(old) * max(len(new) - len(old), 0)))
    return text.replace(old, new)


FUNCTIONS = (
    scalar(
        "CONCAT",
        "strings",
        "Joins texts or bytes; NULLs are left out.",
        ("CONCAT('a', NULL, 'b')", "ab"),
        on("(STRING...) -> STRING", _concat(""), nulls=True),
        on("(BYTES...) -> BYTES", _concat(b""), nulls=True),
    ),
    scalar(
        "CONCAT_WS",
        "strings",
        "Joins texts or bytes with a separator, which goes first; NULLs are left out.",
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        on("(STRING, STRING...) -> STRING", _concat_ws, nulls=True),
        on("(BYTES, BYTES...) -> BYTES", _concat_ws, nulls=True),
    ),
    scalar(
        "LEN",
        "strings",
        "Returns the length of a text in UTF-16 units, or of bytes.",
        ("LEN('abc')", "3"),
        on("(STRING) -> INT", length_of),
        on("(BYTES) -> INT", len),
    ),
    scalar(
        "UCASE",
        "strings",
        "Returns a text in upper case.",
        ("UCASE('abc')", "ABC"),
        on("(STRING) -> STRING", str.upper),
    ),
    scalar(
        "LCASE",
        "strings",
        "Returns a text in lower case.",
        ("LCASE('ABC')", "abc"),
        on("(STRING) -> STRING", str.lower),
    ),
    scalar(
        "TRIM",
        "strings",
        "Strips spaces and control characters at both ends.",
        ("TRIM('  a b ')", "a b"),
        on("(STRING) -> STRING", java_trim),
    ),
    scalar(
        "INITCAP",
        "strings",
        "Writes the first letter of each word in upper case, the others in lower case.",
        ("INITCAP('some WORDS')", "Some Words"),
        on("(STRING) -> STRING", _initcap),
    ),
    scalar(
        "SUBSTRING",
        "strings",
        "Returns a part of a text or of bytes from a position, which counts from 1 (or, negative, from the end).",
        ("SUBSTRING('stream', -4, 2)", "re"),
        on("(STRING, INT) -> STRING", _substring_text),
        on("(STRING, INT, INT) -> STRING", _substring_text),
        on("(BYTES, INT) -> BYTES", substring),
        on("(BYTES, INT, INT) -> BYTES", substring),
    ),
    scalar(
        "REPLACE",
        "strings",
        "Replaces every occurrence of a text.",
        ("REPLACE('foobar', 'o', '0')", "f00bar"),
        on("(STRING, STRING, STRING) -> STRING", _replace),
    ),
    scalar(
        "INSTR",
        "strings",
        "Returns the position of a text in another one, from 1; 0 if it is not there.",
        ("INSTR('corporate floor', 'or', 3, 2)", "14"),
        on("(STRING, STRING) -> INT", _instr, nulls=True),
        on("(STRING, STRING, INT!) -> INT", _instr, nulls=True),
        on("(STRING, STRING, INT!, INT!) -> INT", _instr, nulls=True),
    ),
    scalar(
        "LPAD",
        "strings",
        "Pads at the left, or cuts at the right, to a length.",
        ("LPAD('ab', 5, 'xy')", "xyxab"),
        on("(STRING, INT, STRING) -> STRING", _pad_text(left=True)),
        on("(BYTES, INT, BYTES) -> BYTES", _pad_bytes(left=True)),
    ),
    scalar(
        "RPAD",
        "strings",
        "Pads or cuts at the right to a length.",
        ("RPAD('ab', 5, 'xy')", "abxyx"),
        on("(STRING, INT, STRING) -> STRING", _pad_text(left=False)),
        on("(BYTES, INT, BYTES) -> BYTES", _pad_bytes(left=False)),
    ),
    scalar(
        "SPLIT",
        "strings",
        "Splits at a delimiter; an empty one splits every character.",
        ("SPLIT('a,b,', ',')", "[a, b, ]"),
        on("(STRING, STRING) -> ARRAY<STRING>", _split_text),
        on("(BYTES, BYTES) -> ARRAY<BYTES>", _split_bytes),
    ),
    scalar(
        "SPLIT_TO_MAP",
        "strings",
        "Makes a map of a text, given the delimiter of entries and the one of key and value.",
        ("SPLIT_TO_MAP('a=1;b=2', ';', '=')", "{a=1, b=2}"),
        on("(STRING, STRING, STRING) -> MAP<STRING, STRING>", _split_to_map),
    ),
    scalar(
        "CHR",
        "strings",
        "Returns the character of a code point, or of escapes such as \\u004b.",
        ("CHR(75)", "K"),
        on("(INT) -> STRING", _chr_code),
        on("(STRING) -> STRING", _chr_text),
    ),
    scalar(
        "ELT",
        "strings",
        "Returns the n-th of the following texts, from 1; NULL if there is none.",
        ("ELT(2, 'a', 'b')", "b"),
        on("(INT!, STRING...) -> STRING", _elt, nulls=True),
    ),
    scalar(
        "FIELD",
        "strings",
        "Returns the position of the first argument among the others, from 1; 0 if it is not there.",
        ("FIELD('b', 'a', 'b')", "2"),
        on("(STRING, STRING...) -> INT", _field, nulls=True),
    ),
    scalar(
        "MD5",
        "strings",
        "Returns the MD5 digest of a text in hexadecimal.",
        ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        on("(STRING) -> STRING", _md5),
    ),
    scalar(
        "UUID",
        "strings",
        "Returns a random UUID, or the text of the UUID in 16 bytes.",
        ("UUID(TO_BYTES('0102030405060708090a0b0c0d0e0f10', 'hex'))", "01020304-0506-0708-090a-0b0c0d0e0f10"),
        on("() -> STRING", lambda: str(uuid.uuid4())),
        on("(BYTES) -> STRING", _uuid_of),
        deterministic=False,
    ),
)
