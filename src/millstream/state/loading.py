"""Loading of rows that are not in memory, as stores request it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

_CHUNK = 1_000


class RowLoader(Protocol):
    """Loads rows of a store into memory. A store has a loader while some of its rows are not in memory, else None.

    Times are those of the store.
    """

    @property
    def rows(self) -> int:
        """The approximate number of rows that are not in memory."""

    def load_key(self, key: Any, low: int, high: int, /) -> None:
        """Loads the rows of a key from ``low`` to ``high``."""

    def load_keys(self, keys: Iterable[Any], low: int, high: int, /) -> None:
        """Loads the rows of several keys from ``low`` to ``high``, with few requests."""

    def load_between(self, low: int, high: int, /) -> None:
        """Loads the rows of all keys from ``low`` to ``high``."""

    def load_prefix(self, prefix: bytes, /) -> None:
        """Loads the rows whose key bytes start with a prefix."""


def chunks(count: int, loader: RowLoader | None) -> list[slice]:
    """Returns slices of a number of keys whose rows are loaded together: a single one if all rows are in memory.

    A chunk is small enough for the memory of its rows not to matter, and large enough to need few requests.
    """
    return [slice(0, count)] if loader is None else [slice(n, n + _CHUNK) for n in range(0, count, _CHUNK)]
