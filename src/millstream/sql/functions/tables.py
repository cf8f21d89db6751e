"""Table functions: each call gives a list of rows."""

from __future__ import annotations

from itertools import product
from typing import Any

from millstream.sql.functions.catalogue import Example, TableFunction, on

MAX_CUBE_COLUMNS = 16
"""CUBE_EXPLODE doubles its rows with each column; more columns raise."""


def _explode(items: list[Any]) -> list[Any]:
    return list(items)


def _cube(columns: list[Any]) -> list[list[Any]]:
    if len(columns) > MAX_CUBE_COLUMNS:
        raise ValueError(f"CUBE_EXPLODE takes at most {MAX_CUBE_COLUMNS} columns, not {len(columns)}")
    choices = [(None,) if column is None else (None, column) for column in columns]
    return [list(row) for row in product(*choices)]


TABLE_FUNCTIONS = (
    TableFunction(
        "EXPLODE",
        "table",
        "Returns a row for each element of an array.",
        "explode",
        Example("EXPLODE(ARRAY[1, 2])", "[1, 2]"),
        (on("(ARRAY<T>) -> T", _explode),),
    ),
    TableFunction(
        "CUBE_EXPLODE",
        "table",
        "Returns a row for each combination of the elements of an array, in which each element is itself or NULL.",
        "cube_explode",
        Example("CUBE_EXPLODE(ARRAY[1, 2])", "[[null, null], [null, 2], [1, null], [1, 2]]"),
        (on("(ARRAY<T>) -> ARRAY<T>", _cube),),
    ),
)
