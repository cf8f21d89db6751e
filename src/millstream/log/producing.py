"""Routes records to partitions and encodes them as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millstream.core.partitioning_arrow import partitions_for
from millstream.errors import RecordRefusedError
from millstream.log.api import ProducerRecord, Topic
from millstream.log.arrays import from_integers
from millstream.log.blocks import Block, encode_batch, to_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Column by column this is several times faster than zip(*rows).
_FIELDS = tuple(itemgetter(place) for place in range(len(ProducerRecord._fields)))

# To read one record, its whole block is read, so the size of blocks is limited.
_BLOCK_RECORDS = 16_384
_BLOCK_BYTES = 4 * 1024 * 1024


def route(
    topic: Topic, records: Iterable[ProducerRecord], partition: int | None, sticky: int, now: int
) -> list[tuple[int, Block]]:
    """Returns blocks of records with their partitions, ordered by partition.

    Args:
        topic: The topic.
        records: The records.
        partition: The partition of records without one of their own; None to choose it by the key.
        sticky: The partition of records without a key.
        now: The timestamp of records without one.
    """
    rows = records if isinstance(records, list | tuple) else list(records)
    if not rows:
        return []
    try:
        keys, values, timestamps, headers, chosen = (list(map(column, rows)) for column in _FIELDS)
    except (TypeError, IndexError):
        hint = "ProducerRecord(key, value, timestamp, headers, partition)"
        raise RecordRefusedError("only instances of ProducerRecord can be produced", hint=hint) from None
    if None in timestamps:
        timestamps = [now if timestamp is None else timestamp for timestamp in timestamps]
    try:
        batch = to_batch(timestamps, keys, values, headers if any(headers) else None)
    except RecordRefusedError as error:
        raise RecordRefusedError(f"topic {topic.name!r}: {error.message}", hint=error.hint) from error
    targets = _targets(topic, batch, chosen, partition, sticky)
    if targets is None:
        return [(partition or 0, block) for block in _blocks(batch)]
    order = np.argsort(targets, kind="stable")
    ordered = batch.take(from_integers(order))
    numbers, first = np.unique(targets[order], return_index=True)
    edges = [*first.tolist(), len(batch)]
    return [
        (int(number), block)
        for number, start, end in zip(numbers, edges, edges[1:], strict=False)
        for block in _blocks(ordered.slice(start, end - start))
    ]


def _targets(
    topic: Topic, batch: pa.RecordBatch, chosen: list[int | None], partition: int | None, sticky: int
) -> NDArray[np.int32] | None:
    """Returns the partition of each record; None if all go to `partition` or to the only one."""
    own: dict[int, int] = {}
    if chosen.count(None) < len(chosen):
        own = {place: number for place, number in enumerate(chosen) if number is not None}
    for number in {*own.values()} if partition is None else {*own.values(), partition}:
        topic.check_partition(number)
    if not own and (partition is not None or topic.partitions == 1):
        return None
    if partition is not None:
        targets = np.full(len(batch), partition, np.int32)
    else:
        targets = partitions_for(batch.column("key"), topic.partitions)
        targets[targets < 0] = sticky
    targets[list(own)] = list(own.values())
    return targets


def _blocks(batch: pa.RecordBatch) -> Iterator[Block]:
    count = max(1, min(_BLOCK_RECORDS, len(batch) * _BLOCK_BYTES // max(batch.nbytes, 1)))
    for start in range(0, len(batch), count):
        yield encode_batch(batch.slice(start, count))
