"""The values of records in internal topics: the order position and the sender come before the value.

A header of each record would cost several times as much, because clients create and read headers one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from millstream.runtime.order.positions import SIZE, Position, from_bytes

_NULL = 1 << 31
_SENDER = struct.Struct(">I")
OVERHEAD = SIZE + _SENDER.size
"""Bytes that the position and the sender take."""


def wrap(values: Sequence[bytes | None], origins: Any, sender: int) -> list[bytes]:
    """Puts the positions of the origins and the sender before values.

    Args:
        values: The values; None for a tombstone.
        origins: The positions of the origins.
        sender: The partition number of the task that writes.

    >>> from millstream.runtime.order.positions import positions
    >>> origins = positions(np.array([5, 6]), 0, np.array([7, 8]))
    >>> values, found, senders = unwrap(wrap([b"value", None], origins, 3))
    >>> values, found.tolist() == origins.tolist(), senders.tolist()
    ([b'value', None], True, [3, 3])
    """
    present, absent = _SENDER.pack(sender), _SENDER.pack(sender | _NULL)
    return [
        origin + absent if value is None else origin + present + value
        for origin, value in zip(origins.tolist(), values, strict=True)
    ]


def unwrap(values: Sequence[Any]) -> tuple[list[bytes | None], Any, Any]:
    """Returns the values, the positions of the origins, and the senders."""
    starts = np.frombuffer(b"".join([value[:OVERHEAD] for value in values]), np.uint8).reshape(-1, OVERHEAD)
    origins = from_bytes(np.ascontiguousarray(starts[:, :SIZE]))
    senders = np.ascontiguousarray(starts[:, SIZE:]).view(">u4").ravel()
    if (senders >= _NULL).any():
        bare = [
            None if sender >= _NULL else value[OVERHEAD:]
            for value, sender in zip(values, senders.tolist(), strict=True)
        ]
        return bare, origins, senders & (_NULL - 1)
    return [value[OVERHEAD:] for value in values], origins, senders


def least(origins: Any) -> Position:
    """The least of some positions."""
    first: Position = min(origins.tolist())
    return first
