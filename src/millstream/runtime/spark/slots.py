"""Grouping keys that spread tasks evenly over Spark's shuffle partitions.

Spark assigns a group to a partition by the hash of its key. With task numbers as keys, some partitions would get
several tasks and others none. So each task has a *slot*: the least number whose hash modulo 2880 is the task's number.
Tasks are then spread evenly for every number of partitions that divides 2880.
"""

from __future__ import annotations

MODULUS = 2880
_MASK = 0xFFFFFFFF


def slots(count: int) -> list[int]:
    """Returns the slots of the tasks 0 to count - 1."""
    by_remainder: dict[int, list[int]] = {task % MODULUS: [] for task in range(count)}
    missing = count
    number = 0
    while missing:
        rest = spark_hash(number) % MODULUS
        if rest in by_remainder and len(by_remainder[rest]) * MODULUS + rest < count:
            by_remainder[rest].append(number)
            missing -= 1
        number += 1
    return [by_remainder[task % MODULUS][task // MODULUS] for task in range(count)]


def spark_hash(number: int) -> int:
    """Spark's hash of a long: Murmur3 (x86, 32 bits) with seed 42, as a signed number.

    >>> spark_hash(1), spark_hash(0)
    (-1712319331, -1670924195)
    """
    h = _mix(_mix(42, number & _MASK), (number >> 32) & _MASK) ^ 8
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _mix(h: int, k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    k = (k * 0x1B873593) & _MASK
    h ^= k
    h = ((h << 13) | (h >> 19)) & _MASK
    return (h * 5 + 0xE6546B64) & _MASK
