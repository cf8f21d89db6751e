"""The order in which a task takes the records of its inputs, and how far it goes.

A task takes records by their order positions (see `millstream.runtime.order.positions`), which never decrease within an
input. Among records of one position, which have one origin, the rank of the input decides.

A task does not go past its limit: a record that is not read yet, or not yet written, may belong there. The remaining
records wait for the next batch, so results do not depend on where batches are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from millstream.runtime.order.positions import Position


class Input(NamedTuple):
    """The buffered records of one input.

    Attributes:
        positions: The order position of each record.
        released: The number of records that the task takes whatever the limit is.
    """

    positions: Any
    released: int = 0


class Merged(NamedTuple):
    """The records that a task takes.

    Attributes:
        counts: The number of records to take of each input.
        order: For each record the number of its input; None if at most one input has records.
        positions: The order position of each record.
    """

    counts: list[int]
    order: list[int] | None
    positions: Any


def merge(inputs: Sequence[Input], limit: Position | None) -> Merged:
    """Selects the records that a task takes, and their order.

    Args:
        inputs: The inputs, by rank.
        limit: The position below which records are taken; None: there is no limit.

    >>> one, other = np.array([b"a", b"e", b"i"]), np.array([b"b", b"e", b"f"])
    >>> merged = merge([Input(one), Input(other)], b"f")
    >>> merged.counts, merged.order, merged.positions.tolist()
    ([2, 2], [0, 1, 0, 1], [b'a', b'b', b'e', b'e'])
    >>> merge([Input(one, released=3), Input(other)], b"b").counts
    [3, 0]
    """
    counts = [len(each.positions) for each in inputs]
    if limit is not None:
        below = [int(np.searchsorted(each.positions, limit)) for each in inputs]
        counts = [max(count, each.released) for count, each in zip(below, inputs, strict=True)]
    used = [number for number, count in enumerate(counts) if count]
    positions = [inputs[number].positions[: counts[number]] for number in used]
    if len(used) < 2:
        return Merged(counts, None, positions[0] if used else np.empty(0, "S1"))
    whole = np.concatenate(positions)
    order = np.argsort(whole, kind="stable")
    numbers = np.repeat(used, [counts[number] for number in used])
    return Merged(counts, numbers[order].tolist(), whole[order])
