"""The base class of stores that hold the rows of a key in a list ordered by time."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from millstream.state.codec import Codec
from millstream.state.memory.base import TimedStore
from millstream.state.ordered import TimeIndex
from millstream.state.spec import StoreSpec


class SortedRowsStore(TimedStore):
    """Per key a list of (time, rank, row) in that order, and an index of the keys by time.

    In a session store the time is the end of a session and the rank its start; in a window store with duplicates the
    start of a window and a sequence number.
    """

    __slots__ = ("_index",)

    _rows: dict[Any, list[tuple[int, int, Any]]]

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        # The index is exact in a held store, which lists the rows of a time range. Else it serves expiry alone.
        self._index = TimeIndex(1 if spec.held else self._width)

    def _expire(self, limit: int) -> None:
        for key in self._index.expire(limit):
            rows = self._rows.get(key)
            if rows is None:
                continue
            if rows[-1][0] <= limit:
                del self._rows[key]
            else:
                del rows[: bisect_left(rows, (limit + 1,))]

    def _between(self, key: Any, low: int, high: int) -> list[tuple[int, int, Any]]:
        """The rows of a key from ``low`` to ``high``, of those in memory."""
        rows = self._rows.get(key, [])
        return rows[bisect_left(rows, (low,)) : bisect_left(rows, (high + 1,))]

    def _of_keys(self, low: Any, high: Any, from_: int, to: int) -> list[tuple[int, bytes, int, int, Any, Any]]:
        """The visible rows of a range of keys (None: no bound) and times, as (segment, name, time, rank, key, row)."""
        key_out, segment = self._codec.key_out, self._segment
        least = b"" if low is None else key_out(low)
        greatest = None if high is None else key_out(high)
        from_ = max(from_, self._horizon + 1)
        if self.loader is not None:
            self.loader.load_between(from_, to)
        entries: list[tuple[int, bytes, int, int, Any, Any]] = []
        for key in self._index.between(from_, to):
            name = key_out(key)
            if least <= name and (greatest is None or name <= greatest):
                for time, rank, row in self._between(key, from_, to):
                    entries.append((time // segment, name, time, rank, key, row))
        return entries
