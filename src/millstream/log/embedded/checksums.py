"""Checksums of rows. SQLite has none for its pages, so a flipped bit could pass for data."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from millstream.errors import CorruptLogError

_encode = msgspec.msgpack.Encoder().encode


def checksum(*values: Any) -> int:
    """Returns the checksum to store with the values of a row."""
    return zlib.crc32(_encode(values))


def verify(what: str, stored: Any, *values: Any) -> None:
    """Raises a `CorruptLogError` if the values of a row are not those with which its checksum was made."""
    if stored != zlib.crc32(_encode(values)):
        raise CorruptLogError(f"the log's entry of {what} is damaged", hint="restore the log from a copy")
