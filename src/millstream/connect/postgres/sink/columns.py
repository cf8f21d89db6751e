"""Columns of PostgreSQL tables: which values they accept, and which type holds the values of a new column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from uuid import UUID

Family: TypeAlias = Literal["boolean", "integer", "float", "numeric", "text", "bytes", "json", "array", "time", "other"]

_FAMILIES: dict[str, Family] = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "float4": "float",
    "float8": "float",
    "numeric": "numeric",
    "text": "text",
    "varchar": "text",
    "bpchar": "text",
    "name": "text",
    "citext": "text",
    "bytea": "bytes",
    "json": "json",
    "jsonb": "json",
    "timestamptz": "time",
    "timestamp": "time",
    "date": "time",
    "time": "time",
    "timetz": "time",
    "interval": "time",
}
_BITS = {"int2": 15, "int4": 31, "int8": 63}
_EXACT_IN_DOUBLE = 2**53


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        declared: Its type in SQL, such as ``character varying(20)``.
        base: The name of the type without parameters, as in the catalog: ``varchar``. For a domain, that of its base.
        not_null: Whether it refuses nulls.
        has_default: Whether a row that lacks it gets a default value.
    """

    name: str
    declared: str
    base: str
    not_null: bool = False
    has_default: bool = False

    @property
    def family(self) -> Family:
        """The kind of values that it accepts."""
        if self.base.startswith("_"):
            return "array"
        return _FAMILIES.get(self.base, "other")


class JsonText(str):
    """The text of a JSON value, for a column of JSON."""

    __slots__ = ()


# The types of new columns, by the class of their values. Subclasses come before their base classes.
_NEW: tuple[tuple[type | tuple[type, ...], str, str], ...] = (
    (bool, "boolean", "bool"),
    (int, "bigint", "int8"),
    (float, "double precision", "float8"),
    (Decimal, "numeric", "numeric"),
    (JsonText, "jsonb", "jsonb"),
    (str, "text", "text"),
    ((bytes, bytearray, memoryview), "bytea", "bytea"),
    ((dict, list, tuple), "jsonb", "jsonb"),
    (datetime, "timestamp with time zone", "timestamptz"),
    (date, "date", "date"),
    (time, "time without time zone", "time"),
    (timedelta, "interval", "interval"),
    (UUID, "uuid", "uuid"),
)
_NUMERIC = ("numeric", "numeric")
_TIMESTAMP = ("timestamp without time zone", "timestamp")
_PLAIN: dict[Family, frozenset[type]] = {
    "boolean": frozenset({bool}),
    "float": frozenset({float}),
    "numeric": frozenset({int, float, Decimal}),
    "text": frozenset({str}),
    "bytes": frozenset({bytes}),
    "json": frozenset({dict, list}),
}
"""Classes of which a column accepts every value. Values of other classes are tested one by one."""


def new_column(name: str, values: Iterable[Any]) -> Column | None:
    """Returns a column for values, wide enough for all that can share a column; None if there are only nulls.

    >>> new_column("price", [5, 2.5]).declared, new_column("size", [5, None]).declared
    ('numeric', 'bigint')
    """
    column: Column | None = None
    for value in values:
        if value is None:
            continue
        if column is None:
            typed = _type_of(value)
            column = None if typed is None else Column(name, *typed)
        elif not accepts(column, value):
            column = widened(column, value) or column  # a value that cannot share the column is refused later
    return column


def _type_of(value: Any) -> tuple[str, str] | None:
    if type(value) is int and not -(2**63) <= value < 2**63:
        return _NUMERIC
    if isinstance(value, datetime) and value.tzinfo is None:
        return _TIMESTAMP
    return next(((declared, base) for kind, declared, base in _NEW if isinstance(value, kind)), None)


def misfits(column: Column, values: Iterable[Any]) -> list[Any]:
    """Returns the values that a column does not accept. Nulls are left to the server."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _PLAIN.get(column.family, frozenset()):
        return []
    if kinds == {int} and column.family == "integer":
        limit = 1 << _BITS[column.base]
        whole = [value for value in values if value is not None]
        if -limit <= min(whole) and max(whole) < limit:
            return []
    return [value for value in values if value is not None and not accepts(column, value)]


def accepts(column: Column, value: Any) -> bool:
    """Whether a column can hold a value without a loss. The server may still refuse it, for its size for example."""
    family = column.family
    if family == "other":
        return isinstance(value, str | int | float | Decimal | UUID) and not isinstance(value, bool)
    if family == "json":
        return isinstance(value, dict | list | tuple | str | int | float | Decimal)
    if family == "array":
        return isinstance(value, list | tuple)
    if family == "time":
        return isinstance(value, str | datetime | date | time | timedelta) or _is_epoch(column, value)
    if family == "text":
        return isinstance(value, str | UUID)
    if family == "bytes":
        return isinstance(value, bytes | bytearray | memoryview)
    if family == "boolean" or isinstance(value, bool):
        return family == "boolean" and isinstance(value, bool)
    return isinstance(value, int | float | Decimal) and _number_fits(column, value)


def _is_epoch(column: Column, value: Any) -> bool:
    """Numbers are milliseconds since the epoch in a timestamp, and days since the epoch in a date."""
    return type(value) is int and column.base in {"timestamptz", "timestamp", "date"}


def _number_fits(column: Column, value: float | Decimal) -> bool:
    if column.family == "numeric":
        return True
    if column.family == "float":
        if isinstance(value, int):
            return abs(value) <= _EXACT_IN_DOUBLE
        return isinstance(value, float) or not value.is_finite() or Decimal(repr(float(value))) == value
    limit = 1 << _BITS[column.base]
    # The range comes first: the integer of 1E+999999 would fill the memory. NaN is in no range.
    return not _is_nan(value) and -limit <= value < limit and value == int(value)


def _is_nan(value: float | Decimal) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else math.isnan(value)


def widened(column: Column, value: Any) -> Column | None:
    """Returns the column with a type that holds its values and another one exactly; None if there is no such type.

    Only numbers are widened: integers to ``bigint``, integers and floats to ``numeric``.

    >>> widened(Column("size", "integer", "int4"), 3_000_000_000).declared
    'bigint'
    >>> widened(Column("size", "bigint", "int8"), 2.5).declared
    'numeric'
    >>> widened(Column("size", "bigint", "int8"), "big")
    """
    if column.family not in {"integer", "float"} or isinstance(value, bool):
        return None
    if not isinstance(value, int | float | Decimal):
        return None
    for declared, base in (("bigint", "int8"), _NUMERIC):
        wider = Column(column.name, declared, base, column.not_null, column.has_default)
        if column.family == "integer" and accepts(wider, value):
            return wider
    return Column(column.name, *_NUMERIC, column.not_null, column.has_default)


def describe(value: Any) -> str:
    """Names the class of a value, for the reason of a refusal, without the value itself.

    >>> describe(2**70), describe([1])
    ('an integer of 71 bits', 'a list')
    """
    if type(value) is int and value.bit_length() > 31:
        return f"an integer of {value.bit_length()} bits"
    words = {
        "str": "text",
        "int": "an integer",
        "float": "a float",
        "bool": "a boolean",
        "dict": "a dict",
        "list": "a list",
        "bytes": "bytes",
    }
    return words.get(type(value).__name__, f"a value of the class {type(value).__name__}")
