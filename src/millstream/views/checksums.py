"""Checksums of the rows of views. SQLite has none for its pages, so a flipped bit could pass for data."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from millstream.errors import CorruptViewError

_encode = msgspec.msgpack.Encoder().encode
_PACK = {numbers: struct.Struct(f">{numbers}qI").pack for numbers in (1, 3, 4)}
_PLACE = struct.Struct(">qq")

REBUILT = "start its application again: it makes the view anew from the changelog of the store"

RowChecksum: TypeAlias = Callable[..., int]
"""Gives the checksum of a row: its key, its value, and its numbers."""


NOT_A_ROW = (TypeError, ValueError, struct.error, msgspec.MsgspecError)
"""What a checksum of values raises that are of other types than those of a row."""


def checksum(*values: Any) -> int:
    """Returns the checksum to store with the values of a row."""
    return zlib.crc32(_encode(values))


def row_checksum(store: int, partition: int, numbers: int) -> RowChecksum:
    """Returns the function that gives the checksums of rows of a store and partition.

    A checksum depends on all columns of a row and on their order: a row in the place of another one is noticed.

    Args:
        store: The number of the store.
        partition: The partition.
        numbers: How many numbers a row has besides.
    """
    base, pack, crc32 = zlib.crc32(_PLACE.pack(store, partition)), _PACK[numbers], zlib.crc32
    if numbers == 1:  # most rows have one, and a call with any number of arguments takes longer
        return lambda key, value, number: crc32(pack(number, len(key)) + key + value, base)
    return lambda key, value, *given: crc32(pack(*given, len(key)) + key + value, base)


def version_numbers(timestamp: int, value: bytes | None, until: int | None, ended: int) -> tuple[int, int, int]:
    """Returns the numbers of a version of a versioned store; value and until may be None."""
    return timestamp, until or 0, bool(ended) + 2 * (value is None) + 4 * (until is None)


def verify(what: str, stored: Any, given: RowChecksum, *values: Any, hint: str | None = None) -> None:
    """Raises a `CorruptViewError` if a checksum is not that of the values, which may be of any type by now."""
    try:
        right = given(*values) == stored
    except NOT_A_ROW:
        right = False
    if not right:
        raise damaged(what, hint)


def damaged(what: str, hint: str | None = None) -> CorruptViewError:
    """Returns the error that says that a part of a view is damaged."""
    return CorruptViewError(f"{what} is damaged", hint=hint or REBUILT)
