"""Turns what tasks wrote into blocks, one for each partition of a topic, as the log keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.blocks import Block, decode, encode, encode_batch, to_batch
from millstream.partitioning_arrow import partitions_for
from millstream.runtime.messages import OutputBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOPIC = itemgetter(0)

UNKNOWN = -1
"""The partition of records whose topic is not known where they were written; below it, what `OutputRecord` says."""


def blocks_of(records: Sequence[Any], partitions: Callable[[str], int | None], keyless: int) -> Iterator[OutputBlock]:
    """Makes blocks of output records, in the order of the first record of each topic.

    Args:
        records: (topic, key, value, timestamp, headers, partition or None), as a task gives them; see `OutputRecord`.
        partitions: How many partitions a topic has; None if that is not known.
        keyless: Decides the partition of records without a key.
    """
    names = dict.fromkeys(map(_TOPIC, records))
    for topic in names:
        found = records if len(names) == 1 else [record for record in records if record[0] == topic]
        _names, keys, values, timestamps, headers, chosen = zip(*found, strict=True)
        count = partitions(topic)
        if count is None:
            by_part = chosen[0] is not None and chosen[0] < 0
            yield block(topic, chosen[0] if by_part else UNKNOWN, timestamps, keys, values, headers)
        elif count == 1:
            yield block(topic, 0, timestamps, keys, values, headers)
        else:
            yield from _dealt(topic, count, (timestamps, keys, values, headers), chosen, keyless)


def merged(blocks: Sequence[Block]) -> Block:
    """Makes one block of those that several tasks wrote: in the order of time, as far as each has come.

    One behind the other, all records but those of the last task would look late to whoever reads them.
    """
    batches = [decode(block.data) for block in blocks]
    progress = np.concatenate([np.maximum.accumulate(batch.column(0).to_numpy()) for batch in batches])
    whole = pa.Table.from_batches(batches).take(pa.array(np.argsort(progress, kind="stable")))
    return encode_batch(whole.combine_chunks().to_batches()[0])


def _dealt(
    topic: str, count: int, columns: tuple[Sequence[Any], ...], chosen: Sequence[int | None], keyless: int
) -> Iterator[OutputBlock]:
    timestamps, keys, values, headers = columns
    batch = to_batch(timestamps, keys, values, headers if any(headers) else None)
    numbers = _partitions(batch.column(1), chosen, count)
    numbers = np.where(numbers < 0, keyless % count, numbers)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(count + 1))
    for partition in range(count):
        places = order[starts[partition] : starts[partition + 1]]
        if len(places):
            yield _output(topic, partition, encode_batch(batch.take(pa.array(places))))


def _partitions(keys: pa.Array, chosen: Sequence[int | None], count: int) -> NDArray[np.int32]:
    """The partition of each record, as `OutputRecord` says it; -1 of those whose key should decide and is null."""
    marks = set(chosen)
    by_key = [mark for mark in marks if mark is None or mark < 0]
    decided = {mark: partitions_for(keys if mark is None else pc.binary_slice(keys, 0, mark), count) for mark in by_key}
    if len(marks) == len(decided) == 1:
        return decided[by_key[0]]
    numbers = np.array([0 if mark is None else mark for mark in chosen], np.int32)
    for mark, found in decided.items():
        numbers = np.where([one == mark for one in chosen], found, numbers)
    return numbers


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
    return _output(topic, partition, encode(timestamps, keys, values, given))


def _output(topic: str, partition: int, made: Block) -> OutputBlock:
    return OutputBlock(topic, partition, made.data, made.count, made.min_timestamp, made.max_timestamp)
