"""Checksums of rows. SQLite has none for its pages, so a flipped bit would go undetected."""

from __future__ import annotations

from typing import Any

from millstream.errors import CorruptLogError
from millstream.views.checksums import checksum

__all__ = ["checksum", "verify"]


def verify(what: str, stored: Any, *values: Any) -> None:
    """Raises a `CorruptLogError` if the values of a row do not match its checksum."""
    if stored != checksum(*values):
        raise CorruptLogError(f"the log's entry of {what} is damaged", hint="restore the log from a copy")
