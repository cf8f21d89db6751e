"""Outputs of tasks as appends to topics: by partition, those of internal topics with their origins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from millstream.core.records import Headers
from millstream.engine import OutputRecord
from millstream.log.api import Append
from millstream.log.arrays import partitions_of_keys
from millstream.log.blocks import ColumnBlock
from millstream.runtime.order.positions import LEAST, Position
from millstream.runtime.output_blocks import Origins, OutputColumns, columns_for, origins_for, partitions_of
from millstream.runtime.real_time.envelope import least, wrap
from millstream.runtime.real_time.task import TaskOutputs


class TaskAppend(NamedTuple):
    """An append of a task.

    Attributes:
        append: The append.
        least: The least origin of records of an internal topic; None for other topics.
    """

    append: Append
    least: Position | None = None


def appends_of(outputs: Sequence[TaskOutputs], count_of: Callable[[str], int], partition: int) -> Iterator[TaskAppend]:
    """Makes appends of the outputs of a task, in the order of the first record of each topic.

    Args:
        outputs: The outputs of each call of the engine, and their origins.
        count_of: Returns the number of partitions of a topic, which is created if it does not exist.
        partition: The partition number of the task. It also selects the partition of records without a key.
    """
    records = list(chain.from_iterable(each.outputs for each in outputs))
    for topic in dict.fromkeys(record[0] for record in records):
        columns = columns_for(topic, records)
        count = count_of(topic)
        numbers = None
        if count > 1:
            numbers = partitions_of(partial(_by_hash, columns.keys, count), columns.partitions)
            numbers = np.where(numbers < 0, partition % count, numbers)
        at = None
        if topic in outputs[0].origins.topics:
            origins = [(each.origins, origins_for(topic, each.outputs)) for each in outputs]
            at = np.concatenate([positions.of(indexes) for positions, indexes in origins if indexes])
            columns = columns._replace(values=wrap(columns.values, at, partition))
        for number, places in _by_partition(numbers, count):
            block = _block(columns, places)
            first = None if at is None else least(at if places is None else at[places])
            yield TaskAppend(Append(topic, number, block), first)


def letters_of(records: Sequence[OutputRecord], count_of: Callable[[str], int]) -> list[Append]:
    """Makes appends of dead letters that belong to no task."""
    outputs = [TaskOutputs(list(records), Origins((), None, LEAST))]
    return [each.append for each in appends_of(outputs, count_of, 0)]


def _by_hash(keys: Sequence[bytes | None], count: int, mark: int | None) -> Any:
    """The partitions of keys, up to a byte that is counted from the end; None: of whole keys."""
    if mark is not None:
        keys = [None if key is None else key[:mark] for key in keys]
    return partitions_of_keys(keys, count)


def _by_partition(numbers: Any, count: int) -> Iterator[tuple[int, Any]]:
    """Yields the partitions that have records, and the places of these records; None for all records."""
    if numbers is None:
        yield 0, None
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(count + 1))
    for partition in range(count):
        places = order[starts[partition] : starts[partition + 1]]
        if len(places):
            yield partition, None if len(places) == len(numbers) else places


def _block(columns: OutputColumns, places: Any) -> ColumnBlock:
    keys, values, timestamps, headers, _partitions = columns
    if places is None:
        return ColumnBlock(timestamps, keys, values, headers)
    chosen: Sequence[int] = places.tolist()
    own_headers: Sequence[Headers] | None = None if headers is None else [headers[place] for place in chosen]
    return ColumnBlock(
        [timestamps[place] for place in chosen],
        [keys[place] for place in chosen],
        [values[place] for place in chosen],
        own_headers,
    )
