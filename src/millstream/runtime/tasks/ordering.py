"""The order in which a task takes the records of its inputs, and how far it may go.

Kafka Streams takes the record with the lowest timestamp at the head of its queue. A record that is older than the one
before it in its partition is then taken at once, so that this order is the one by *running maximum*: the greatest
timestamp of the partition up to the record. Of equal ones topic, partition and offset decide.

If the log has more records of a partition than the batch, the task must not go past that partition's running maximum:
the record behind the cut may belong there. What it leaves waits for the next batch, so that results do not depend on
where batches are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Input(NamedTuple):
    """The records of one partition that a task has at hand.

    Attributes:
        rank: The place of the partition among the inputs, by topic and partition.
        orders: The running maximum of each record.
        bound: The least running maximum that a record behind the cut can have; None if there is none behind it.
    """

    rank: int
    orders: Any
    bound: int | None


def merge(inputs: Sequence[Input]) -> tuple[list[int], list[int] | None]:
    """Decides what a task takes of its inputs.

    Returns:
        How many records of each input are taken, and for each record taken the input that it is of; None if there is
        but one input with records.

    >>> merge([Input(0, np.array([1, 5, 9]), 9), Input(1, np.array([2, 5]), 5)])
    ([2, 2], [0, 1, 0, 1])
    """
    limits = [(one.bound, one.rank) for one in inputs if one.bound is not None]
    counts = [len(one.orders) for one in inputs]
    if limits:
        bound, rank = min(limits)
        counts = [int(np.searchsorted(one.orders, bound, "right" if one.rank <= rank else "left")) for one in inputs]
    used = [number for number, count in enumerate(counts) if count]
    if len(used) < 2:
        return counts, None
    orders = np.concatenate([inputs[number].orders[: counts[number]] for number in used])
    numbers = np.repeat(used, [counts[number] for number in used])
    ranks = np.array([one.rank for one in inputs])[numbers]
    return counts, numbers[np.lexsort((ranks, orders))].tolist()
