"""Sizes in bytes, as text."""

from __future__ import annotations


def show_bytes(size: float) -> str:
    """Returns a number of bytes as text with a unit.

    >>> show_bytes(512), show_bytes(5_300_000)
    ('512 B', '5.1 MB')
    """
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
