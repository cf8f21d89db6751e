"""The sizes of stores, for metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from millstream.state.memory import AnyStore
from millstream.state.paged.pager import Pager

_SLOW = 0.001
_PAUSE = 100
"""If counting rows takes longer than `_SLOW` seconds, the next count follows after so many times its duration."""


class StoreSize(NamedTuple):
    """The size of a store.

    Attributes:
        rows: The approximate number of rows.
        memory: The estimated bytes of the rows in memory.
        stored: The bytes of the pages in the remote map.
    """

    rows: int
    memory: int
    stored: int


class RowCounter:
    """Counts the rows of stores. Some stores iterate over all keys for that, so slow counts are reused for a while."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._next_count = 0.0

    def sizes(self, stores: Mapping[str, AnyStore], pagers: Mapping[str, Pager]) -> dict[str, StoreSize]:
        """Returns the size of each store."""
        if time.perf_counter() >= self._next_count:
            begin = time.thread_time()  # processor time: other processes do not make a count slow
            self._rows = {name: len(store) for name, store in stores.items()}
            seconds = time.thread_time() - begin
            self._next_count = time.perf_counter() + (_PAUSE * seconds if seconds > _SLOW else 0)
        return {name: StoreSize(self._rows.get(name, 0), pagers[name].memory, pagers[name].stored) for name in stores}
