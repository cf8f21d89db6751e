"""Functions for NULLs and copies."""

from __future__ import annotations

from typing import Any

from millstream.sql.functions.catalogue import on, scalar


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _nullif(value: Any, other: Any) -> Any:
    return None if value == other else value


FUNCTIONS = (
    scalar(
        "COALESCE",
        "nulls",
        "Returns its first argument that is not NULL.",
        ("COALESCE(NULL, 2, 3)", "2"),
        on("(T, T...) -> T", _coalesce, nulls=True),
    ),
    scalar(
        "IFNULL",
        "nulls",
        "Returns the first argument, or the second one if the first is NULL.",
        ("IFNULL(CAST(NULL AS STRING), 'none')", "none"),
        on("(T, T) -> T", _coalesce, nulls=True),
    ),
    scalar(
        "NULLIF",
        "nulls",
        "Returns NULL if both arguments are equal, else the first one.",
        ("NULLIF(1, 1)", "null"),
        on("(T, T) -> T", _nullif, nulls=True),
    ),
    scalar(
        "AS_VALUE",
        "nulls",
        "Returns its argument: a copy of a key column for the value of the result.",
        ("AS_VALUE('k')", "k"),
        on("(T) -> T", lambda value: value, nulls=True),
    ),
)
