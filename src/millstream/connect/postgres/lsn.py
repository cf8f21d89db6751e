"""Positions in the log of a PostgreSQL server."""

from __future__ import annotations


def parse_lsn(text: str) -> int:
    """Returns a position as a number.

    >>> parse_lsn("1/A0")
    4294967456
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def show_lsn(lsn: int) -> str:
    """Returns a position as PostgreSQL shows it.

    >>> show_lsn(4294967456)
    '1/A0'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
