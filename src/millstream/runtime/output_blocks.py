"""Encodes the outputs of tasks as blocks, one for each partition of a topic, as the log stores them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.partitioning_arrow import partitions_for
from millstream.core.records import Headers
from millstream.engine.context import OutputBatch
from millstream.log.arrays import from_integers
from millstream.log.blocks import Block, decode, encode, encode_batch, headers_column, to_batch
from millstream.runtime.messages import OutputBlock, sample_of
from millstream.runtime.order.origin_header import attach, detach
from millstream.runtime.order.positions import Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOPIC = itemgetter(0)


UNKNOWN = -1
"""The partition of records whose topic does not exist yet; values below it are those of `OutputRecord`."""


def blocks_of(
    records: Sequence[Any],
    partitions: Callable[[str], int | None],
    keyless: int,
    origins: Origins | None = None,
) -> Iterator[OutputBlock]:
    """Makes blocks of output records, in the order of the first record of each topic.

    Args:
        records: The outputs of a task: `OutputRecord` and `OutputBatch`.
        partitions: Returns the number of partitions of a topic; None if the topic does not exist yet.
        keyless: Selects the partition of records without a key.
        origins: The origins of the task's outputs, if it writes internal topics.
    """
    for topic in dict.fromkeys(map(_TOPIC, records)):
        keys, values, timestamps, headers, chosen = columns_for(topic, records)
        if origins is not None and topic in origins.topics:
            headers = attach(_encoded(headers), origins.of(origins_for(topic, records)))
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
    """Output records of a topic, by column; ``headers`` is None if no record has any. See `OutputRecord`."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None
    partitions: Sequence[int | None]


class Origins(NamedTuple):
    """The origins of the outputs of a task in a batch.

    Attributes:
        topics: The internal topics that the task writes.
        positions: The order position of each record that the task has taken, in order.
        default: The position of outputs without an origin, such as those of wall-clock punctuators.
    """

    topics: Collection[str]
    positions: Any
    default: Position

    def of(self, indexes: Sequence[int | None]) -> Any:
        """The positions of outputs.

        Args:
            indexes: For each output the index of its origin; None if it has none.
        """
        if None not in indexes:
            return self.positions[np.array(indexes)]
        return np.array([self.default if index is None else self.positions[index].item() for index in indexes])


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


def origins_for(topic: str, records: Sequence[Any]) -> list[int | None]:
    """The origins of the outputs for an internal topic: see `OutputRecord.origin`."""
    origins: list[int | None] = []
    for kind, outputs in groupby((record for record in records if record[0] == topic), type):
        if kind is OutputBatch:
            origins += chain.from_iterable(batch.origins for batch in outputs)
        else:
            origins += [record[6] for record in outputs]
    return origins


def _joined(columns: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(columns))


def merged(blocks: Sequence[Block]) -> Block:
    """Merges the blocks of an internal partition that several tasks have written into one, by the order of origins.

    The records of one origin are in the order of the blocks.
    """
    batches = [decode(block.data) for block in blocks]
    origins = np.concatenate([detach(batch.column("headers"))[1] for batch in batches])
    whole = pa.Table.from_batches(batches).take(from_integers(np.argsort(origins, kind="stable")))
    return encode_batch(whole.combine_chunks().to_batches()[0])


def _by_partition(
    topic: str, count: int, columns: tuple[Any, ...], chosen: Sequence[int | None], keyless: int
) -> Iterator[OutputBlock]:
    timestamps, keys, values, headers = columns
    batch = to_batch(timestamps, keys, values, _encoded(headers))
    hashed = batch.column(1)

    def by_hash(mark: int | None) -> NDArray[np.int32]:
        return partitions_for(hashed if mark is None else pc.binary_slice(hashed, 0, mark), count)

    numbers = partitions_of(by_hash, chosen)
    numbers = np.where(numbers < 0, keyless % count, numbers)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(count + 1))
    for partition in range(count):
        places = order[starts[partition] : starts[partition + 1]]
        if len(places):
            sample = [timestamps[place] for place in sample_of(places.tolist())]
            yield _output(topic, partition, encode_batch(batch.take(from_integers(places))), sample)


def partitions_of(
    by_hash: Callable[[int | None], NDArray[np.int32]], chosen: Sequence[int | None]
) -> NDArray[np.int32]:
    """The partition of each record, see `OutputRecord`; -1 for records without a key that the key would route.

    Args:
        by_hash: Returns the partitions of all keys, up to a byte that is counted from the end; None: of whole keys.
        chosen: The partition numbers of the records.
    """
    marks = set(chosen)
    by_key = [mark for mark in marks if mark is None or mark < 0]
    decided = {mark: by_hash(mark) for mark in by_key}
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
    headers: Sequence[Any] | pa.Array | None,
) -> OutputBlock:
    """Encodes one block."""
    return _output(topic, partition, encode(timestamps, keys, values, _encoded(headers)), sample_of(timestamps))


def _encoded(headers: Sequence[Headers] | pa.Array | None) -> pa.Array | None:
    """The column of headers; None if no record has any."""
    if headers is None or isinstance(headers, pa.Array):
        return headers
    return headers_column(headers) if any(headers) else None


def _output(topic: str, partition: int, encoded: Block, sample: list[int]) -> OutputBlock:
    times = encoded.min_timestamp, encoded.max_timestamp
    return OutputBlock(topic, partition, encoded.data, encoded.count, *times, sample)
