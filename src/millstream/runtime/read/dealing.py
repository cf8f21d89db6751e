"""Deals the records that a read stage has read to the tasks, by their keys.

A task gets a delivery only if the batch has something for it: records, rows of a global table, an input that it must
not get ahead of, or a wall clock that it watches. So a batch costs what it touches, however many tasks there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.core.partitioning_arrow import partitions_for
from millstream.log.arrays import from_integers
from millstream.runtime.messages import PIECE, Delivery, End, Piece

_ENOUGH = 4096
"""Partitions are packed together until they have so many records: a piece takes a while however small it is."""

NO_ORDERS = np.array([], dtype=np.int64)


class _Part(NamedTuple):
    """The records of one partition.

    Attributes:
        partition: The number by which tasks know the partition.
        keyless: Decides the task of records without a key.
        records: The records.
        orders: The running maximum of their times.
        chosen: The number that decides the task of each record instead of its key; -1 where the key does.
    """

    partition: int
    keyless: int
    records: pa.RecordBatch
    orders: Any
    chosen: Any


class Dealer:
    """Collects what one read stage has for the tasks in one batch.

    Args:
        tasks: The number of tasks.
        bounds: For each partition of the batch, the greatest time that was read of it in earlier batches.
    """

    def __init__(self, tasks: int, bounds: Mapping[tuple[str, int], int]) -> None:
        self._tasks = tasks
        self._before = bounds
        self._parts: dict[str, list[_Part]] = {}
        self._counts: Counter[str] = Counter()
        self._pieces: dict[int, list[Piece]] = {}
        self._restores: dict[int, list[Piece]] = {}
        self._globals: list[Piece] = []
        self._ends: list[End] = []
        self.bounds: list[tuple[str, int, int]] = []

    def deal(
        self,
        place: tuple[str, int],
        records: pa.RecordBatch,
        orders: Any,
        *,
        keyless: int,
        more: bool,
        chosen: Any = None,
    ) -> None:
        """Takes the records of one partition.

        Args:
            place: The topic and the number by which tasks know the partition.
            records: The records.
            orders: The running maximum of their times, in this batch alone.
            keyless: Decides the task of records without a key.
            more: The log has more records of the partition.
            chosen: The number that decides the task of each record instead of its key; -1 where the key does.
        """
        before = self._before.get(place)
        if before is not None and len(orders) and orders[0] < before:
            orders = orders.clip(min=before)
        bound = int(orders[-1]) if len(orders) else before
        if more:
            self._ends.append(End(*place, bound))
        if bound is not None:
            self.bounds.append((*place, bound))
        if len(orders):
            topic, partition = place
            self._parts.setdefault(topic, []).append(_Part(partition, keyless, records, orders, chosen))
            self._counts[topic] += len(orders)
            if self._counts[topic] >= _ENOUGH:
                self._flush(topic)

    def give_all(self, piece: Piece) -> None:
        """Gives records of a global table to every task."""
        self._globals.append(piece)

    def restore(self, task: int, piece: Piece) -> None:
        """Gives a task records of a changelog."""
        self._restores.setdefault(task, []).append(piece)

    def deliveries(self, batch: int, now: int, wanted: Collection[int] | None) -> Iterator[tuple[int, Delivery]]:
        """Yields what each task gets, for the tasks that get something.

        Args:
            batch: The number of the batch.
            now: Its time.
            wanted: The tasks that run in this batch even if it has nothing for them; None: all.
        """
        for topic in self._parts:
            self._flush(topic)
        everyone = wanted is None or bool(self._globals or self._ends)
        chosen = range(self._tasks) if everyone else sorted({*(wanted or ()), *self._pieces, *self._restores})
        for task in chosen:
            pieces, restores = self._pieces.get(task, []), self._restores.get(task, [])
            yield task, Delivery(batch, now, self._ends, pieces, self._globals, restores, everyone)

    def _flush(self, topic: str) -> None:
        """Packs the records of the partitions that came since the last call: one piece for each task."""
        parts, self._parts[topic], self._counts[topic] = self._parts[topic], [], 0
        if not parts:
            return
        lengths = [len(part.orders) for part in parts]
        records = parts[0].records if len(parts) == 1 else pa.concat_batches([part.records for part in parts])
        orders = parts[0].orders if len(parts) == 1 else np.concatenate([part.orders for part in parts])
        owners = np.repeat(np.arange(len(parts)), lengths)
        if self._tasks == 1:
            self._add(0, topic, parts, owners, packed(records, orders))
            return
        numbers = self._numbers(parts, records, lengths)
        places = np.argsort(numbers, kind="stable")
        tasks, starts = np.unique(numbers[places], return_index=True)
        if len(tasks) > 1:
            records, orders, owners = records.take(from_integers(places)), orders[places], owners[places]
        for task, start, stop in zip(tasks.tolist(), starts, [*starts[1:], len(places)], strict=True):
            piece = packed(records.slice(start, stop - start), orders[start:stop])
            self._add(task, topic, parts, owners[start:stop], piece)

    def _numbers(self, parts: Sequence[_Part], records: pa.RecordBatch, lengths: Sequence[int]) -> Any:
        """The task of each record."""
        keyless = np.repeat([part.keyless % self._tasks for part in parts], lengths)
        numbers = partitions_for(records.column("key"), self._tasks)
        numbers = np.where(numbers < 0, keyless, numbers)
        if any(part.chosen is not None for part in parts):
            chosen = np.concatenate(
                [np.full(len(part.orders), -1) if part.chosen is None else part.chosen for part in parts]
            )
            numbers = np.where(chosen < 0, numbers, chosen % self._tasks)
        return numbers

    def _add(self, task: int, topic: str, parts: Sequence[_Part], owners: Any, data: bytes) -> None:
        places, counts = np.unique(owners, return_counts=True)
        partitions = [parts[place].partition for place in places]
        self._pieces.setdefault(task, []).append(Piece(topic, partitions, counts.tolist(), data))


def packed(records: pa.RecordBatch, orders: Any) -> bytes:
    """The records of a piece."""
    columns = [records.column(name) for name in ("offset", "timestamp")]
    columns.append(from_integers(orders))
    columns += [records.column(name) for name in ("key", "value", "headers")]
    data: bytes = pa.record_batch(columns, schema=PIECE).serialize().to_pybytes()
    return data
