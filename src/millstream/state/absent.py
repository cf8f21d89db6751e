"""What a store asks for rows that are not in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

_AHEAD = 1_000


class Absent(Protocol):
    """Brings rows into memory. A store has one while it lacks rows, else None: then what it has is all there is."""

    @property
    def rows(self) -> int:
        """About how many rows are not in memory."""

    def load_key(self, key: Any, low: int, high: int, /) -> None:
        """Brings the rows of a key from ``low`` to ``high``, in the store's own time."""

    def load_keys(self, keys: Iterable[Any], low: int, high: int, /) -> None:
        """Brings the rows of several keys from ``low`` to ``high``, with few requests."""

    def load_between(self, low: int, high: int, /) -> None:
        """Brings the rows of all keys from ``low`` to ``high``, in the store's own time."""

    def load_prefix(self, prefix: bytes, /) -> None:
        """Brings the rows whose key bytes start with a prefix."""


def parts(count: int, absent: Absent | None) -> list[slice]:
    """Returns the parts of so many keys whose rows are to be brought at once: all, if all rows are here.

    What the rows of a part take must not matter; and a request for each key would.
    """
    return [slice(0, count)] if absent is None else [slice(n, n + _AHEAD) for n in range(0, count, _AHEAD)]
