"""Buffers of a task: records that the task has read and not taken yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from millstream.engine.queues import Columns
from millstream.runtime.order.positions import NONE, Position


@dataclass(slots=True)
class _Chunk:
    """Records that were read at once.

    Attributes:
        columns: The records.
        positions: Their order positions; None if the task needs none.
        request: The first request for a round that covers them.
    """

    columns: Columns
    positions: Any
    request: int

    def __len__(self) -> int:
        return len(self.columns.offsets)


class Buffer:
    """The buffered records of one input, or of one sender of an input, in the order of offsets."""

    __slots__ = ("_chunks", "count")

    def __init__(self) -> None:
        self._chunks: deque[_Chunk] = deque()
        self.count = 0

    def add(self, columns: Columns, positions: Any, request: int) -> None:
        """Appends records. Their positions are not below those of earlier ones."""
        chunk = _Chunk(columns, positions, request)
        self._chunks.append(chunk)
        self.count += len(chunk)

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record; None if there is none."""
        return self._chunks[0].columns.offsets[0] if self._chunks else None

    @property
    def head(self) -> Position | None:
        """The order position of the first record; None if there is none."""
        head: Position | None = self._chunks[0].positions[0].item() if self._chunks else None
        return head

    @property
    def middle(self) -> Position | None:
        """The order position of a record in the middle; None if there is none."""
        middle: Position | None = self._chunks[len(self._chunks) // 2].positions[0].item() if self._chunks else None
        return middle

    @property
    def tail(self) -> Position | None:
        """The order position of the last record; None if there is none."""
        tail: Position | None = self._chunks[-1].positions[-1].item() if self._chunks else None
        return tail

    def last_covered(self, request: int) -> Position | None:
        """The position of the last record that a request for a round covers; None if there is none."""
        last: Position | None = None
        for chunk in self._chunks:
            if chunk.request > request:
                break
            last = chunk.positions[-1].item()
        return last

    def count_below(self, limit: Position | None, through: Position | None) -> int:
        """The number of records with a position below *limit*, or not above *through*. No limit: all."""
        if limit is None:
            return self.count
        count = 0
        for chunk in self._chunks:
            below = int(np.searchsorted(chunk.positions, limit))
            if through is not None:
                below = max(below, int(np.searchsorted(chunk.positions, through, side="right")))
            count += below
            if below < len(chunk):
                break
        return count

    def take(self, count: int) -> tuple[Columns, Any]:
        """Removes the first records, and returns them with their positions."""
        parts: list[_Chunk] = []
        self.count -= count
        while count:
            chunk = self._chunks[0]
            if len(chunk) <= count:
                parts.append(self._chunks.popleft())
                count -= len(chunk)
                continue
            parts.append(_Chunk(sliced(chunk.columns, 0, count), _cut(chunk.positions, 0, count), chunk.request))
            rest = sliced(chunk.columns, count, len(chunk))
            self._chunks[0] = _Chunk(rest, _cut(chunk.positions, count, len(chunk)), chunk.request)
            break
        if len(parts) == 1:
            return parts[0].columns, parts[0].positions
        positions = [part.positions for part in parts]
        if positions and positions[0] is None:
            return joined([part.columns for part in parts]), None
        return joined([part.columns for part in parts]), np.concatenate(positions) if positions else NONE


def joined(parts: Sequence[Columns]) -> Columns:
    """The records of several parts, one after the other."""
    headers: Iterable[Any] = repeat(())
    if any(isinstance(part.headers, list) for part in parts):
        headers = list(chain.from_iterable(islice(part.headers, len(part.offsets)) for part in parts))
    return Columns(
        list(chain.from_iterable(part.offsets for part in parts)),
        list(chain.from_iterable(part.timestamps for part in parts)),
        list(chain.from_iterable(part.keys for part in parts)),
        list(chain.from_iterable(part.values for part in parts)),
        headers,
    )


def reordered(columns: Columns, places: Sequence[int]) -> Columns:
    """The records in another order, or some of them."""
    offsets, timestamps, keys, values, headers = columns
    return Columns(
        [offsets[place] for place in places],
        [timestamps[place] for place in places],
        [keys[place] for place in places],
        [values[place] for place in places],
        [headers[place] for place in places] if isinstance(headers, list) else headers,
    )


def sliced(columns: Columns, start: int, end: int) -> Columns:
    """The records from one index up to another."""
    offsets, timestamps, keys, values, headers = columns
    return Columns(
        offsets[start:end],
        timestamps[start:end],
        keys[start:end],
        values[start:end],
        headers[start:end] if isinstance(headers, list) else headers,
    )


def _cut(positions: Any, start: int, end: int) -> Any:
    return None if positions is None else positions[start:end]
