"""Strings as Java sees them: sequences of UTF-16 code units."""

from __future__ import annotations

MAX_RESULT = 10_000_000
"""No function makes a longer text or byte string: a bound on memory."""


def check_length(length: int) -> None:
    """Raises if a result would be too long."""
    if length > MAX_RESULT:
        raise ValueError(f"the result would have {length} characters; the limit is {MAX_RESULT}")


def length_of(text: str) -> int:
    """Returns the number of UTF-16 code units.

    >>> length_of("a😀")
    3
    """
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def units_of(text: str) -> str:
    """Returns a text in which characters beyond U+FFFF are two surrogates, so that positions count code units."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(data[i] << 8 | data[i + 1]) for i in range(0, len(data), 2))


def from_units(units: str) -> str:
    """Joins pairs of surrogates again; a lone surrogate becomes a question mark, as in Java's encoders."""
    if units.isascii() or not any("\ud800" <= character <= "\udfff" for character in units):
        return units
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace").replace("\ufffd", "?")


def string_hash(text: str) -> int:
    """Returns ``String.hashCode``.

    >>> string_hash("hello"), string_hash("")
    (99162322, 0)
    """
    value = 0
    for character in units_of(text):
        value = value * 31 + ord(character) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
