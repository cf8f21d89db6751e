"""The partition of a key, by Kafka's default partitioner, so that Millstream and Java clients agree."""

from __future__ import annotations

from struct import Struct, unpack_from

from millstream.errors import ConfigError

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF

# Unpacks the first n words of 4 bytes, for keys of up to 67 bytes.
_READ_WORDS = tuple(Struct(f"<{count}I").unpack_from for count in range(17))


def murmur2(data: bytes) -> int:
    """Returns Kafka's 32-bit murmur2 hash of bytes, as Java's signed int.

    >>> murmur2(b"foobar")
    -790332482
    """
    unsigned = _murmur2(data)
    return unsigned - (1 << 32) if unsigned > _POSITIVE else unsigned


def to_positive(number: int) -> int:
    """Returns a 32-bit number without its sign bit. (This is not its absolute value.)

    >>> to_positive(-1), to_positive(5)
    (2147483647, 5)
    """
    return number & _POSITIVE


def partition_for(key: bytes | None, partitions: int) -> int:
    """Returns the partition that Kafka's producers choose for a key.

    A null key belongs to partition 0. (Kafka's producers spread null keys at random; Millstream is deterministic.)

    >>> partition_for(b"foobar", 50)
    16

    Raises:
        ConfigError: The number of partitions is below 1.
    """
    if partitions < 1:
        raise ConfigError(f"a topic has at least 1 partition, not {partitions}")
    return 0 if key is None else (_murmur2(key) & _POSITIVE) % partitions


def _murmur2(data: bytes) -> int:
    """Returns the hash as an unsigned number."""
    length = len(data)
    count = length >> 2
    if count < len(_READ_WORDS):
        words = _READ_WORDS[count](data)
    else:
        words = unpack_from(f"<{count}I", data)
    result = _SEED ^ length
    for word in words:
        mixed = word * _FACTOR & _MASK
        # One mask serves both products: the bits above 32 do not reach those below.
        result = (result * _FACTOR ^ (mixed ^ mixed >> 24) * _FACTOR) & _MASK
    if length & 3:
        # The last 1 to 3 bytes.
        result = (result ^ int.from_bytes(data[count << 2 :], "little")) * _FACTOR & _MASK
    result = (result ^ result >> 13) * _FACTOR & _MASK
    return result ^ result >> 15
