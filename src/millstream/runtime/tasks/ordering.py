"""The order in which a task takes the records of its inputs, and how far it goes.

A task takes records by their order positions (see `millstream.runtime.order.positions`), which never decrease within an
input. Records of one position have one origin. Among these, the task takes the lowest timestamp at the head of an
input first, as Kafka Streams does; among equal ones, the rank of the input decides.

A task does not go past its limit: a record that is not read yet, or not yet written, may belong there. The remaining
records wait for the next batch, so results do not depend on where batches are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from millstream.runtime.order.positions import NONE, Position, times_of


class Input(NamedTuple):
    """The buffered records of one input.

    Attributes:
        positions: The order position of each record.
        released: The number of records that the task takes whatever the limit is.
        timestamps: The timestamps of the records, if other inputs may have records of the same origins.
        ordinal: The ordinal of the partition of all origins; None if they are of several partitions.
        limit: The position below which records of this input are taken, also released ones; None: there is none.
    """

    positions: Any
    released: int = 0
    timestamps: Any = None
    ordinal: int | None = None
    limit: Position | None = None


class Merged(NamedTuple):
    """The records that a task takes.

    Attributes:
        counts: The number of records to take of each input.
        order: For each record the number of its input; None if at most one input has records.
        last: The greatest order position of the records; None if there are none.
        unsorted: The order positions of the records, input by input.
        places: For each record its place in `unsorted`; None if that is the order.
    """

    counts: list[int]
    order: list[int] | None
    last: Position | None
    unsorted: Any
    places: Any = None

    def positions(self) -> Any:
        """The order position of each record."""
        return self.unsorted if self.places is None else self.unsorted[self.places]


def merge(inputs: Sequence[Input], limit: Position | None) -> Merged:
    """Selects the records that a task takes, and their order.

    Args:
        inputs: The inputs, by rank.
        limit: The position below which records are taken; None: there is no limit.

    >>> from millstream.runtime.order.positions import position
    >>> one, other = (
    ...     np.array([position(time, n, 0) for time in times]) for n, times in enumerate([[1, 5, 9], [2, 5, 6]])
    ... )
    >>> merged = merge([Input(one), Input(other)], position(6, 0, 0))
    >>> merged.counts, merged.order
    ([2, 2], [0, 1, 0, 1])
    >>> merge([Input(one, released=3), Input(other)], position(2, 0, 0)).counts
    [3, 0]
    """
    counts = [_count(each, limit) for each in inputs]
    used = [number for number, count in enumerate(counts) if count]
    columns = [inputs[number].positions[: counts[number]] for number in used]
    last: Position | None = max((column[-1].item() for column in columns), default=None)
    if len(used) < 2:
        return Merged(counts, None, last, columns[0] if used else NONE)
    whole = np.concatenate(columns)
    numbers = np.repeat(used, [counts[number] for number in used])
    ordinals = [number for each in used if (number := inputs[each].ordinal) is not None]
    if len(set(ordinals)) == len(used):
        # The ordinal decides between equal times: each input has its own, and its offsets ascend.
        times = times_of(whole)
        if ordinals == sorted(ordinals):
            places = np.argsort(times, kind="stable")
        else:
            places = np.lexsort((np.repeat(ordinals, [counts[number] for number in used]), times))
    else:
        places = np.argsort(whole, kind="stable")
    numbers = numbers[places]
    if sum(inputs[number].timestamps is not None for number in used) > 1:
        timestamps = [
            np.full(counts[number], _EARLIEST) if column is None else column[: counts[number]]
            for number in used
            for column in [inputs[number].timestamps]
        ]
        _by_timestamp(whole[places], np.concatenate(timestamps)[places], numbers)
    return Merged(counts, numbers.tolist(), last, whole, places)


def _count(records: Input, limit: Position | None) -> int:
    """The number of records of an input that a task takes."""
    count = len(records.positions)
    if limit is not None:
        count = max(int(np.searchsorted(records.positions, limit)), records.released)
    return count if records.limit is None else min(count, int(np.searchsorted(records.positions, records.limit)))


_EARLIEST = np.iinfo(np.int64).min


def _by_timestamp(positions: Any, timestamps: Any, numbers: Any) -> None:
    """Sorts the inputs of records of one origin by the timestamps at the heads of the inputs.

    Args:
        positions: The positions of all records, sorted.
        timestamps: Their timestamps.
        numbers: The numbers of their inputs, which are sorted in place.
    """
    same = positions[1:] == positions[:-1]
    if not (same & (timestamps[1:] < timestamps[:-1])).any():
        return
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    ends = np.append(starts[1:], len(positions))
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        latest: dict[int, int] = {}
        keys = []
        for number, timestamp in zip(numbers[start:end].tolist(), timestamps[start:end].tolist(), strict=True):
            latest[number] = max(timestamp, latest.get(number, timestamp))
            keys.append((latest[number], number))
        numbers[start:end] = [number for _latest, number in sorted(keys)]
