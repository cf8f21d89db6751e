"""Counting of many keys at once, in rows of (count, greatest time)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """The count and the greatest time after each key; whether all keys are distinct."""

    counts: list[int]
    times: list[int]
    distinct: bool


def count(rows: dict[Any, Any], keys: Sequence[Any], times: Sequence[int]) -> Counts:
    """Adds one to the count of a key for each of its occurrences.

    >>> rows = {"a": (5, 100)}
    >>> count(rows, ["a", "b", "a"], [30, 40, 150])
    Counts(counts=[6, 1, 7], times=[100, 40, 150], distinct=False)
    >>> rows
    {'a': (7, 150), 'b': (1, 40)}
    """
    if len(set(keys)) < len(keys):
        return _one_by_one(rows, keys, times)
    before = list(map(rows.get, keys))
    if not any(before):
        counts, latest = [1] * len(keys), list(times)
    else:
        counts = [1 if row is None else row[0] + 1 for row in before]
        latest = [time if row is None or row[1] < time else row[1] for row, time in zip(before, times, strict=True)]
    rows.update(zip(keys, zip(counts, latest, strict=True), strict=True))
    return Counts(counts, latest, True)


def _one_by_one(rows: dict[Any, Any], keys: Sequence[Any], times: Sequence[int]) -> Counts:
    get = rows.get
    counts: list[int] = []
    latest: list[int] = []
    for key, time in zip(keys, times, strict=True):
        row = get(key)
        if row is None:
            row = (1, time)
        else:
            number, latest_time = row
            row = (number + 1, latest_time if latest_time > time else time)  # noqa: FURB136  (max() would take twice as long)
        rows[key] = row
        counts.append(row[0])
        latest.append(row[1])
    return Counts(counts, latest, False)
