"""Conversions between Arrow and numpy without a copy.

The first call of Arrow's own `pa.array` or `to_numpy` imports pandas, which takes most of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def from_integers(numbers: NDArray[np.int64]) -> pa.Array:
    """Returns 64-bit integers as an Arrow array of the same memory."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def to_numbers(array: pa.Array) -> NDArray[Any]:
    """Returns an Arrow array of numbers without nulls as a numpy array of the same memory."""
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1] or b"", kind, len(array), array.offset * kind.itemsize)


def null_mask(array: pa.Array) -> NDArray[np.bool_]:
    """Returns a mask of the null elements of an Arrow array."""
    validity = array.buffers()[0]
    if validity is None:
        return np.zeros(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.equal(bits[array.offset : array.offset + len(array)], 0)
