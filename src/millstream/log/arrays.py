"""Conversions between Arrow and numpy without a copy.

The first call of Arrow's own `pa.array` or `to_numpy` imports pandas, which takes most of a second.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.core.partitioning import partition_for
from millstream.core.partitioning_arrow import partitions_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW_KEYS = 100
"""The number of keys up to which a loop finds their partitions sooner than Arrow does."""


def from_integers(numbers: NDArray[np.int64]) -> pa.Array:
    """Returns 64-bit integers as an Arrow array of the same memory."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def to_numbers(array: pa.Array) -> NDArray[Any]:
    """Returns an Arrow array of numbers without nulls as a numpy array of the same memory."""
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1] or b"", kind, len(array), array.offset * kind.itemsize)


def to_bytes(array: pa.Array) -> list[bytes | None]:
    """Returns the elements of an Arrow array of binary values, several times faster than `to_pylist`."""
    if array.null_count == len(array):
        return [None] * len(array)
    _validity, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).tolist()
    start = edges[0]
    content = memoryview(data)[start : edges[-1]].tobytes() if data is not None else b""
    elements: list[bytes | None] = [content[low - start : high - start] for low, high in itertools.pairwise(edges)]
    if array.null_count:
        for place in np.flatnonzero(null_mask(array)).tolist():
            elements[place] = None
    return elements


def from_bytes(elements: Sequence[bytes | None]) -> pa.Array:
    """Returns bytes as an Arrow array of binary values.

    >>> from_bytes([b"a", None, b"", b"bcd"]).to_pylist()
    [b'a', None, b'', b'bcd']
    """
    if "pandas" in sys.modules:  # Arrow's own way is faster, then
        return pa.array(elements, pa.binary())
    validity, absent = None, 0
    present: Any = elements
    if None in elements:
        nulls = np.fromiter((element is None for element in elements), np.bool_, len(elements))
        validity, absent = pa.py_buffer(np.packbits(~nulls, bitorder="little")), int(nulls.sum())
        present = [element or b"" for element in elements]
    edges = np.zeros(len(elements) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, present), np.int32, len(elements)), out=edges[1:])
    buffers = [validity, pa.py_buffer(edges), pa.py_buffer(b"".join(present))]
    return pa.Array.from_buffers(pa.binary(), len(elements), buffers, absent)


def partitions_of_keys(keys: Sequence[bytes | None], count: int) -> NDArray[np.int32]:
    """Returns the partition of each key among `count`; -1 for a null key.

    >>> partitions_of_keys([b"foobar", None], 50).tolist()
    [16, -1]
    """
    if len(keys) > _FEW_KEYS:
        return partitions_for(from_bytes(keys), count)
    return np.array([-1 if key is None else partition_for(key, count) for key in keys], np.int32)


def null_mask(array: pa.Array) -> NDArray[np.bool_]:
    """Returns a mask of the null elements of an Arrow array."""
    validity = array.buffers()[0]
    if validity is None:
        return np.zeros(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.equal(bits[array.offset : array.offset + len(array)], 0)
