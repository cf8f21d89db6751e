"""The partitions of an Arrow array of keys: the arithmetic of `millstream.core.partitioning`, vectorized."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from millstream.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint32]
    Integers: TypeAlias = NDArray[np.int64]

_SEED = np.uint32(0x9747B28C)
_FACTOR = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)

# A chunk of keys and its intermediate results fit into the processor's cache.
_CHUNK = 16_384

# Masks of the word that contains the last 0 to 3 bytes of a key.
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def partitions_for(keys: pa.Array, count: int) -> NDArray[np.int32]:
    """Returns the partition of each key among `count`, as Kafka's producers choose it; -1 for a null key.

    >>> partitions_for(pa.array([b"foobar", None, b""], pa.binary()), 50).tolist()
    [16, -1, 31]

    Raises:
        ConfigError: The number of partitions is below 1.
    """
    if count < 1:
        raise ConfigError(f"a topic has at least 1 partition, not {count}")
    if not pa.types.is_binary(keys.type):
        keys = keys.cast(pa.binary())
    result = np.empty(len(keys), np.int32)
    _, offsets_buffer, data_buffer = keys.buffers()
    if len(keys):
        assert offsets_buffer is not None
        offsets = np.frombuffer(offsets_buffer, np.int32, len(keys) + 1, keys.offset * 4)
        first, last = int(offsets[0]), int(offsets[-1])
        words = _words(np.frombuffer(data_buffer or b"", np.uint8)[first:last])
        offsets = offsets - np.int32(first)
        for start in range(0, len(keys), _CHUNK):
            hashes = _murmur2(offsets[start : start + _CHUNK + 1], words)
            result[start : start + _CHUNK] = (hashes & _POSITIVE) % np.uint32(count)
    if keys.null_count:
        validity = np.unpackbits(np.frombuffer(keys.buffers()[0], np.uint8), bitorder="little")
        result[validity[keys.offset : keys.offset + len(keys)] == 0] = -1
    return result


def _words(data: NDArray[np.uint8]) -> Words:
    """Returns a view of bytes in which element i is the little-endian word that begins at byte i."""
    # Padding: a word that begins within the last three bytes, or at the end (an empty key), can be read, too.
    padded = np.zeros(len(data) + 4, np.uint8)
    padded[: len(data)] = data
    return np.ndarray((len(data) + 1,), "<u4", padded, 0, (1,))


def _murmur2(offsets: NDArray[np.int32], words: Words) -> Words:
    starts = offsets[:-1].astype(np.int64)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.uint32)
    hashes = lengths ^ _SEED
    word_counts = lengths >> np.uint32(2)
    least, most = int(word_counts.min()), int(word_counts.max())
    for index in range(least):
        hashes = _mix(hashes, words[starts + 4 * index])
    for index in range(least, most):
        longer = np.flatnonzero(word_counts > index)
        hashes[longer] = _mix(hashes[longer], words[starts[longer] + 4 * index])
    rest = lengths & np.uint32(3)
    ragged = np.flatnonzero(rest)
    if len(ragged):
        tails = words[starts[ragged] + 4 * word_counts[ragged]] & _TAIL_MASKS[rest[ragged]]
        hashes[ragged] = (hashes[ragged] ^ tails) * _FACTOR
    hashes = (hashes ^ hashes >> np.uint32(13)) * _FACTOR
    return hashes ^ hashes >> np.uint32(15)


def _mix(hashes: Words, words: Words) -> Words:
    mixed = words * _FACTOR
    mixed ^= mixed >> np.uint32(24)
    mixed *= _FACTOR
    return hashes * _FACTOR ^ mixed
