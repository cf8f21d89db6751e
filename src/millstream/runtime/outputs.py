"""Turns what tasks wrote into blocks, one for each partition of a topic, as the log keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.log.blocks import encode
from millstream.partitioning_arrow import partitions_for
from millstream.runtime.messages import OutputBlock

UNKNOWN = -1
"""The partition of records whose topic is not known where they were written."""


def blocks_of(records: Iterable[Any], partitions: Callable[[str], int | None], keyless: int) -> Iterator[OutputBlock]:
    """Makes blocks of output records, in the order of the first record of each topic.

    Args:
        records: (topic, key, value, timestamp, headers, partition or None), as a task gives them.
        partitions: How many partitions a topic has; None if that is not known.
        keyless: Decides the partition of records without a key.
    """
    topics: dict[str, list[Any]] = {}
    for record in records:
        found = topics.get(record[0])
        if found is None:
            found = topics[record[0]] = []
        found.append(record)
    for topic, found in topics.items():
        _names, keys, values, timestamps, headers, chosen = zip(*found, strict=True)
        count = partitions(topic)
        if count is None:
            yield block(topic, UNKNOWN, timestamps, keys, values, headers)
        elif count == 1:
            yield block(topic, 0, timestamps, keys, values, headers)
        else:
            yield from _dealt(topic, count, (timestamps, keys, values, headers), chosen, keyless)


def _dealt(
    topic: str, count: int, columns: tuple[Sequence[Any], ...], chosen: Sequence[int | None], keyless: int
) -> Iterator[OutputBlock]:
    _timestamps, keys, _values, _headers = columns
    numbers = partitions_for(pa.array(keys, pa.binary()), count)
    numbers = np.where(numbers < 0, keyless % count, numbers)
    for place, partition in enumerate(chosen):
        if partition is not None:
            numbers[place] = partition
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(count + 1))
    for partition in range(count):
        places = order[starts[partition] : starts[partition + 1]].tolist()
        if places:
            yield block(topic, partition, *([column[place] for place in places] for column in columns))


def block(
    topic: str,
    partition: int,
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Any] | None,
) -> OutputBlock:
    """Makes one block."""
    given = headers if headers is not None and any(headers) else None
    made = encode(timestamps, keys, values, given)
    return OutputBlock(topic, partition, made.data, made.count, made.min_timestamp, made.max_timestamp)
