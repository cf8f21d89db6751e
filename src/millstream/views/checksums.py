"""Checksums of the rows of views. SQLite has none for its pages, so a flipped bit would go unnoticed."""

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

REBUILT = "start its application again: it rebuilds the view from the changelog of the store"

RowChecksum: TypeAlias = Callable[..., int]
"""Returns the checksum of a row, from its key, its value and its numbers."""


NOT_A_ROW = (TypeError, ValueError, struct.error, msgspec.MsgspecError)
"""The errors of a checksum function for values that are not of the types of a row."""


def checksum(*values: Any) -> int:
    """Returns the checksum of values."""
    return zlib.crc32(_encode(values))


def row_checksum(store: int, partition: int, numbers: int) -> RowChecksum:
    """Returns the checksum function for rows of a store and partition.

    A checksum depends on all columns of a row and on their order, so a row under the key of another one is detected.

    Args:
        store: The id of the store.
        partition: The partition.
        numbers: How many numbers a row has, besides key and value.
    """
    base, pack, crc32 = zlib.crc32(_PLACE.pack(store, partition)), _PACK[numbers], zlib.crc32
    if numbers == 1:  # the most frequent case; a call with *args takes longer
        return lambda key, value, number: crc32(pack(number, len(key)) + key + value, base)
    return lambda key, value, *columns: crc32(pack(*columns, len(key)) + key + value, base)


def version_numbers(timestamp: int, value: bytes | None, until: int | None, ended: int) -> tuple[int, int, int]:
    """Returns the numbers of a version for its checksum; value and until may be None."""
    return timestamp, until or 0, bool(ended) + 2 * (value is None) + 4 * (until is None)


def verify(what: str, stored: Any, checksum_of: RowChecksum, *values: Any, hint: str | None = None) -> None:
    """Raises a `CorruptViewError` if the stored checksum does not match the values, which may be of wrong types."""
    try:
        matches = checksum_of(*values) == stored
    except NOT_A_ROW:
        matches = False
    if not matches:
        raise damaged(what, hint)


def damaged(what: str, hint: str | None = None) -> CorruptViewError:
    """Returns the error for a damaged part of a view."""
    return CorruptViewError(f"{what} is damaged", hint=hint or REBUILT)
