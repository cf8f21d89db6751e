"""Finds the rows of a batch that the server refuses, without writing the others one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

Row = TypeVar("Row")

_CHUNK = 100
"""Rows that are written at once while refused rows are searched. A refused row costs one repetition of its chunk."""


class Refusal(Exception):  # noqa: N818  (not an error of the sink, but of a record)
    """A record cannot be a row. The text is the reason."""


class RefusedRow(Exception):  # noqa: N818  (the same, found by the server)
    """The server refuses one of several rows. The text is the reason.

    Attributes:
        index: The place of the row among those written; None if the server does not name it.
    """

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason)
        self.index = index


Attempt: TypeAlias = Callable[[Sequence[Row]], None]
"""Writes rows in a savepoint. If it raises `RefusedRow`, none of them was written."""


def refused_rows(rows: Sequence[Row], attempt: Attempt[Row]) -> list[tuple[Row, str]]:
    """Writes all rows that the server accepts, and returns the others with the reasons.

    >>> def attempt(rows):
    ...     if any(row % 70 == 0 for row in rows):
    ...         raise RefusedRow("a multiple of 70")
    >>> refused_rows(range(1, 200), attempt)
    [(70, 'a multiple of 70'), (140, 'a multiple of 70')]
    """
    refused: list[tuple[Row, str]] = []
    for start in range(0, len(rows), _CHUNK):
        _search(rows[start : start + _CHUNK], attempt, refused)
    return refused


def _search(rows: Sequence[Row], attempt: Attempt[Row], refused: list[tuple[Row, str]]) -> None:
    left = list(rows)
    while left:
        try:
            attempt(left)
            return
        except RefusedRow as refusal:
            index = 0 if len(left) == 1 else refusal.index
            if index is None:
                middle = len(left) // 2
                _search(left[:middle], attempt, refused)
                left = left[middle:]
            else:
                refused.append((left.pop(index), str(refusal)))
