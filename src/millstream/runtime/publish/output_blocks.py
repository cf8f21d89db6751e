"""Encodes the outputs of tasks as blocks, one for each partition of a topic, as the log stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.partitioning_arrow import partitions_for
from millstream.core.records import Headers
from millstream.engine.context import OutputBatch
from millstream.log.arrays import from_integers, to_numbers
from millstream.log.blocks import Block, decode, encode, encode_batch, to_batch
from millstream.runtime.messages import OutputBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOPIC = itemgetter(0)


UNKNOWN = -1
"""The partition of records whose topic does not exist yet; values below it are those of `OutputRecord`."""


def blocks_of(records: Sequence[Any], partitions: Callable[[str], int | None], keyless: int) -> Iterator[OutputBlock]:
    """Makes blocks of output records, in the order of the first record of each topic.

    Args:
        records: The outputs of a task: `OutputRecord` and `OutputBatch`.
        partitions: Returns the number of partitions of a topic; None if the topic does not exist yet.
        keyless: Selects the partition of records without a key.
    """
    for topic in dict.fromkeys(map(_TOPIC, records)):
        keys, values, timestamps, headers, chosen = columns_for(topic, records)
        count = partitions(topic)
        if count is None:
            first = chosen[0]
            by_part = first if first is not None and first < 0 else UNKNOWN
            yield block(topic, by_part, timestamps, keys, values, headers)
        elif count == 1:
            yield block(topic, 0, timestamps, keys, values, headers)
        else:
            yield from _by_partition(topic, count, (timestamps, keys, values, headers), chosen, keyless)


class OutputColumns(NamedTuple):
    """Output records of a topic, by column; ``headers`` is None if no record has any."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None
    partitions: Sequence[int | None]


def columns_for(topic: str, records: Sequence[Any]) -> OutputColumns:
    """Selects the outputs for a topic, in their order."""
    if len(set(map(_TOPIC, records))) > 1:
        records = [record for record in records if record[0] == topic]
    if OutputBatch not in set(map(type, records)):
        return OutputColumns(*([record[place] for record in records] for place in range(1, 6)))
    parts: list[OutputColumns] = []
    for kind, outputs in groupby(records, type):
        if kind is OutputBatch:
            parts += [
                OutputColumns(
                    batch.keys, batch.values, batch.timestamps, batch.headers, [batch.partition] * len(batch.keys)
                )
                for batch in outputs
            ]
        else:
            parts.append(columns_for(topic, list(outputs)))
    if len(parts) == 1:
        return parts[0]
    headers = [[()] * len(part.keys) if part.headers is None else part.headers for part in parts]
    return OutputColumns(
        _joined([part.keys for part in parts]),
        _joined([part.values for part in parts]),
        _joined([part.timestamps for part in parts]),
        _joined(headers),
        _joined([part.partitions for part in parts]),
    )


def _joined(columns: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(columns))


def merged(blocks: Sequence[Block]) -> Block:
    """Merges the blocks of several tasks into one, by the running maximum of their timestamps.

    Without the merge, the records of all tasks but the last would be late for the reader.
    """
    batches = [decode(block.data) for block in blocks]
    progress = np.concatenate([np.maximum.accumulate(to_numbers(batch.column(0))) for batch in batches])
    whole = pa.Table.from_batches(batches).take(from_integers(np.argsort(progress, kind="stable")))
    return encode_batch(whole.combine_chunks().to_batches()[0])


def _by_partition(
    topic: str, count: int, columns: tuple[Any, ...], chosen: Sequence[int | None], keyless: int
) -> Iterator[OutputBlock]:
    timestamps, keys, values, headers = columns
    batch = to_batch(timestamps, keys, values, headers if headers is not None and any(headers) else None)
    numbers = _partitions(batch.column(1), chosen, count)
    numbers = np.where(numbers < 0, keyless % count, numbers)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(count + 1))
    for partition in range(count):
        places = order[starts[partition] : starts[partition + 1]]
        if len(places):
            yield _output(topic, partition, encode_batch(batch.take(from_integers(places))))


def _partitions(keys: pa.Array, chosen: Sequence[int | None], count: int) -> NDArray[np.int32]:
    """The partition of each record, see `OutputRecord`; -1 for records without a key that the key would route."""
    marks = set(chosen)
    by_key = [mark for mark in marks if mark is None or mark < 0]
    decided = {mark: partitions_for(keys if mark is None else pc.binary_slice(keys, 0, mark), count) for mark in by_key}
    if len(marks) == len(decided) == 1:
        return decided[by_key[0]]
    numbers = np.array([0 if mark is None else mark for mark in chosen], np.int32)
    for mark, partitions in decided.items():
        numbers = np.where([choice == mark for choice in chosen], partitions, numbers)
    return numbers


def block(
    topic: str,
    partition: int,
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Any] | None,
) -> OutputBlock:
    """Encodes one block."""
    present = headers if headers is not None and any(headers) else None
    return _output(topic, partition, encode(timestamps, keys, values, present))


def _output(topic: str, partition: int, encoded: Block) -> OutputBlock:
    return OutputBlock(topic, partition, encoded.data, encoded.count, encoded.min_timestamp, encoded.max_timestamp)
