"""Arithmetic on offsets of all partitions of topics. A partition that a list lacks has offset 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.runtime.batches.batch_end import TopicOffsets


def padded(numbers: Sequence[int], length: int) -> list[int]:
    """Cuts or extends a list to one number for each partition.

    >>> padded([1, 2, 3], 2), padded([1], 2)
    ([1, 2], [1, 0])
    """
    return [*numbers[:length], *[0] * (length - len(numbers))]


def counts(ends: list[int], starts: list[int]) -> list[int]:
    """Number of offsets from *starts* to *ends*.

    >>> counts([5, 3, 2], [2, 4])
    [3, 0, 2]
    """
    return [max(0, end - start) for end, start in zip(ends, padded(starts, len(ends)), strict=True)]


def at_most(ends: list[int], limits: list[int]) -> list[int]:
    """The lower offset of each partition.

    >>> at_most([5, 3, 2], [2, 4])
    [2, 3, 0]
    """
    return [min(end, limit) for end, limit in zip(ends, padded(limits, len(ends)), strict=True)]


def at_least(ends: list[int], limits: list[int]) -> list[int]:
    """The greater offset of each partition.

    >>> at_least([5, 3, 2], [2, 4])
    [5, 4, 2]
    """
    return [max(end, limit) for end, limit in zip(ends, padded(limits, len(ends)), strict=True)]


def has_unread(offsets: TopicOffsets, ends: Mapping[str, list[int]]) -> bool:
    """Whether a partition ends after its offset."""
    return any(any(counts(row, offsets.get(topic, []))) for topic, row in ends.items())


def total(offsets: TopicOffsets, ends: TopicOffsets) -> int:
    """Number of offsets of all partitions."""
    return sum(sum(counts(row, offsets.get(topic, []))) for topic, row in ends.items())
