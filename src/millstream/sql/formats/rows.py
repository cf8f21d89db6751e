"""Rows and keys as the engine has them, and the values of their columns in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.sql.catalog.sources import Column

Values = Sequence[Any]
Split = Callable[[Any], Values]
Join = Callable[[Values], Any]
Convert = Callable[[Any], Any]


def splitter(columns: Sequence[Column], *, is_key: bool) -> Split:
    """Returns the function that gives the values of the columns of a row or key, which is not None."""
    names = [column.name for column in columns]
    if not is_key:
        return lambda row: [row[name] for name in names]
    count = len(names)
    if count == 1:
        return lambda key: (key,)

    def split(key: Any) -> Values:
        if len(key) != count:
            raise ValueError(f"a key of {count} columns has {len(key)} values")
        return key  # type: ignore[no-any-return]

    return split


def joiner(columns: Sequence[Column], *, is_key: bool) -> Join:
    """Returns the function that makes a row or key of the values of its columns."""
    names = [column.name for column in columns]
    if not is_key:
        return lambda values: dict(zip(names, values, strict=True))
    if len(names) == 1:
        return lambda values: values[0]
    return lambda values: tuple(values) if names else None
