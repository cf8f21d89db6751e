"""The order in which a task takes the records of its inputs, and how far it may go.

Each record has an *order position*, which never decreases within an input. A task takes the record with the lowest
order position first; among equal ones topic, partition, sender and offset decide.

- The order position of a record of an input topic is the running maximum of the timestamps of its partition. So a late
  record follows its predecessor at once, as in Kafka Streams, which takes the lowest timestamp at the head of a queue.
- A record of an internal topic carries the order position that its sender was at. Positions of different senders are
  independent, so each (topic, partition, sender) is an input of its own.

If the log has more records of an input than the batch, the task must not go past that input's bound: the next record
may belong there. The remaining records wait for the next batch, so results do not depend on where batches are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Input(NamedTuple):
    """The buffered records of one input.

    Attributes:
        rank: The rank of the input by topic, partition and sender.
        orders: The order position of each record.
        bound: The least order position that a record after the batch can have; None if there is no such record.
    """

    rank: int
    orders: Any
    bound: int | None


def merge(inputs: Sequence[Input]) -> tuple[list[int], list[int] | None]:
    """Selects the records that a task takes, and their order.

    Returns:
        The number of records to take of each input, and for each record the number of its input; None if at most one
        input has records.

    >>> merge([Input(0, np.array([1, 5, 9]), 9), Input(1, np.array([2, 5]), 5)])
    ([2, 2], [0, 1, 0, 1])
    """
    limits = [(each.bound, each.rank) for each in inputs if each.bound is not None]
    counts = [len(each.orders) for each in inputs]
    if limits:
        bound, rank = min(limits)
        counts = [int(np.searchsorted(each.orders, bound, "right" if each.rank <= rank else "left")) for each in inputs]
    used = [number for number, count in enumerate(counts) if count]
    if len(used) < 2:
        return counts, None
    orders = np.concatenate([inputs[number].orders[: counts[number]] for number in used])
    numbers = np.repeat(used, [counts[number] for number in used])
    ranks = np.array([each.rank for each in inputs])[numbers]
    return counts, numbers[np.lexsort((ranks, orders))].tolist()
