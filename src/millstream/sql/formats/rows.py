"""Rows and keys as the engine has them, and the values of their columns in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from millstream.sql.catalog.sources import Column

Values = Sequence[Any]
Split = Callable[[Any], Values]
Join = Callable[[Values], Any]
Convert = Callable[[Any], Any]
JoinAll = Callable[[Sequence[Values]], list[Any]]

_ATTRIBUTE: Final = re.compile("[A-Za-z][A-Za-z0-9_]*")


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


def are_attributes(names: Iterable[str]) -> bool:
    """Whether names can be those of attributes of a msgspec struct."""
    return all(map(_ATTRIBUTE.fullmatch, names))


def column_joiner(names: Sequence[str]) -> JoinAll:
    """Returns the function that makes rows of the values of each column; there is at least one column."""
    # A display of a dict, or a struct and its dict, take less than half of the time of `dict(zip(...))`.
    if len(names) == 1:
        (name,) = names
        return lambda columns: [{name: value} for value in columns[0]]
    if len(names) == 2:
        first, second = names
        return lambda columns: [{first: a, second: b} for a, b in zip(*columns, strict=True)]
    if not are_attributes(names):
        return lambda columns: [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    make = msgspec.defstruct("Row", [(name, Any) for name in names], gc=False)
    asdict = msgspec.structs.asdict
    return lambda columns: list(map(asdict, map(make, *columns)))
