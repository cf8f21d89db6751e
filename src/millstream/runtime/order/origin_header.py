"""The header of records of internal topics that contains the position of the record's origin.

The functions work on columns of headers as blocks contain them, each encoded by
`millstream.log.blocks.encode_headers`. Most records have no other header. Their columns are built and read as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.records import UnreadableHeaders
from millstream.log.blocks import decode_headers, encode_headers
from millstream.runtime.order.positions import LEAST, SIZE, from_bytes

ORIGIN = "ms-origin"
"""The name of the header."""

_SAMPLE = encode_headers(((ORIGIN, bytes(SIZE)),))
assert _SAMPLE is not None
_LENGTH = len(_SAMPLE)
_PREFIX = np.frombuffer(_SAMPLE, np.uint8)[:-SIZE]


def attach(headers: pa.Array | None, origins: Any) -> pa.Array:
    """Adds the header to records.

    Args:
        headers: The encoded headers of the records; None if no record has any.
        origins: The positions of the origins.

    >>> from millstream.runtime.order.positions import positions
    >>> origins = positions(np.array([5]), 0, np.array([7]))
    >>> detach(attach(None, origins))[1].tolist() == origins.tolist()
    True
    """
    count = len(origins)
    if headers is not None and headers.null_count < count:
        pairs = zip(headers.to_pylist(), origins.tolist(), strict=True)
        return pa.array(
            [encode_headers((*decode_headers(old), (ORIGIN, origin))) for old, origin in pairs], pa.binary()
        )
    rows = np.empty((count, _LENGTH), np.uint8)
    rows[:, :-SIZE] = _PREFIX
    rows[:, -SIZE:] = np.ascontiguousarray(origins).view(np.uint8).reshape(count, SIZE)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def detach(headers: pa.Array) -> tuple[pa.Array, Any]:
    """Removes the header from records.

    Returns:
        The other headers, and the positions of the origins; the least position where the header is missing.
    """
    count = len(headers)
    rows = _only_header(headers)
    if rows is not None:
        return pa.nulls(count, pa.binary()), from_bytes(np.ascontiguousarray(rows[:, -SIZE:]))
    others: list[bytes | None] = []
    origins: list[bytes] = []
    for data in headers.to_pylist():
        pairs = decode_headers(data)
        if isinstance(pairs, UnreadableHeaders) or not pairs or pairs[-1][0] != ORIGIN:
            others.append(data)
            origins.append(LEAST)
        else:
            others.append(encode_headers(pairs[:-1]))
            origins.append(pairs[-1][1] or LEAST)
    return pa.array(others, pa.binary()), np.array(origins, f"S{SIZE}")


def _only_header(headers: pa.Array) -> Any:
    """The bytes of the headers, a row for each record; None if a record has other headers or none."""
    count = len(headers)
    if not count or headers.null_count:
        return None
    offsets = np.frombuffer(headers.buffers()[1], np.int32, count + 1, headers.offset * 4)
    if offsets[-1] - offsets[0] != count * _LENGTH or (np.diff(offsets) != _LENGTH).any():
        return None
    rows = np.frombuffer(headers.buffers()[2], np.uint8, count * _LENGTH, int(offsets[0])).reshape(count, _LENGTH)
    return rows if (rows[:, :-SIZE] == _PREFIX).all() else None
