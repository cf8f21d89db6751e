"""Order positions: the total order of all records that an application reads.

The position of a record of an input topic is (running maximum of the timestamps of its partition, ordinal of the
partition, offset). So a late record follows its predecessor at once, as in Kafka Streams, which takes the lowest
timestamp at the head of a queue. A record that an operator emits has the position of its *origin*, the input record
whose processing emitted it.

A position is encoded as 20 bytes that sort as the position does: the time with its sign bit inverted, the ordinal and
the offset, each big-endian. The offset is shifted by eight bits, and the last byte is 1, because numpy drops zero bytes
at the end of a byte string.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Position: TypeAlias = bytes

SIZE = 20
"""Bytes of a position."""

ARROW = pa.binary(SIZE)
"""The Arrow type of a column of positions."""

_NUMPY = np.dtype(f"S{SIZE}")
_FIELDS = np.dtype([("time", ">u8"), ("ordinal", ">u4"), ("offset", ">u8")])
_PACKED = struct.Struct(">QIQ")
_SIGN = 1 << 63
_PARTITION_BITS = 16

NONE: Any = np.empty(0, _NUMPY)
"""No positions."""


def ordinal(topic: int, partition: int) -> int:
    """The ordinal of a partition.

    Args:
        topic: The number of the topic among the input topics of the application.
        partition: The number of the partition.
    """
    return (topic << _PARTITION_BITS) + partition


def position(time: int, ordinal: int, offset: int) -> Position:
    """Encodes a position.

    >>> position(-1, 7, 300) < position(5, 0, 0) < position(5, 0, 1) < position(5, 1, 0)
    True
    """
    return _PACKED.pack(time + _SIGN, ordinal, offset << 8 | 1)


LEAST = position(-_SIGN, 0, 0)
"""The least position."""


def time_of(at: Position) -> int:
    """The time of a position.

    >>> time_of(position(-1, 7, 300))
    -1
    """
    time: int = _PACKED.unpack(at)[0]
    return time - _SIGN


def ordinal_of(at: Position) -> int:
    """The ordinal of a position.

    >>> ordinal_of(position(-1, 7, 300))
    7
    """
    number: int = _PACKED.unpack(at)[1]
    return number


def times_of(column: Any) -> Any:
    """The times of positions, as unsigned numbers that sort as the times do.

    >>> np.diff(times_of(np.array([position(-1, 0, 0), position(2, 0, 0)]))).tolist()
    [3]
    """
    return np.ascontiguousarray(column).view(_FIELDS)["time"].astype(np.uint64)


def positions(times: Any, ordinal: int, offsets: Any) -> Any:
    """Encodes the positions of records of one partition.

    Args:
        times: The running maximum of the timestamps, as int64.
        ordinal: The ordinal of the partition.
        offsets: The offsets, as int64.

    >>> positions(np.array([5]), 0, np.array([256])).tolist() == [position(5, 0, 256)]
    True
    """
    fields = np.empty(len(times), _FIELDS)
    fields["time"] = times.view(np.uint64) ^ np.uint64(_SIGN)
    fields["ordinal"] = ordinal
    fields["offset"] = (offsets.view(np.uint64) << np.uint64(8)) | np.uint64(1)
    return fields.view(_NUMPY)


def ascending(column: Any, least: Position | None) -> Any:
    """The running maximum of positions, at least *least*.

    Positions ascend in a partition of an internal topic, unless a record arrived in the log after its successors in
    the order were processed. Then it takes the position of its predecessor: records of a partition stay in the order
    of offsets.

    >>> ascending(np.array([b"a", b"c", b"b"]), None).tolist()
    [b'a', b'c', b'c']
    """
    if not len(column):
        return column
    if (least is None or column[0] >= least) and not (column[1:] < column[:-1]).any():
        return column
    first = column[0].item() if least is None else max(least, column[0].item())
    return np.array(list(accumulate([first, *column[1:].tolist()], max)), _NUMPY)


def to_arrow(column: Any) -> pa.Array:
    """Positions as a column of an Arrow batch."""
    return pa.Array.from_buffers(ARROW, len(column), [None, pa.py_buffer(np.ascontiguousarray(column))])


def from_arrow(column: pa.Array) -> Any:
    """The positions in a column of an Arrow batch. They share its memory."""
    return np.frombuffer(column.buffers()[1] or b"", _NUMPY, len(column), column.offset * SIZE)


def from_bytes(data: Any) -> Any:
    """The positions in a byte string that contains them one after the other."""
    return np.frombuffer(data, _NUMPY)
