"""Values at run time: reading fields, comparing, and converting datetimes, enums and UUIDs to plain values.

The closures of expressions inline the common cases. The functions here are the general, slower ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

from millstream.errors import suggestion

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIELDLESS = frozenset({str, int, float, bool, bytes, list, tuple, set, Decimal, date, datetime})


def to_millis(moment: datetime) -> int:
    """Returns the milliseconds since 1970 of a datetime; without a zone it is UTC.

    >>> to_millis(datetime(1970, 1, 2))
    86400000
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // _MILLISECOND


def to_datetime(millis: int) -> datetime:
    """Returns the UTC datetime of a TIMESTAMP.

    >>> to_datetime(86400000).isoformat()
    '1970-01-02T00:00:00+00:00'
    """
    return EPOCH + timedelta(milliseconds=millis)


def plain(value: Any) -> Any:
    """Returns the plain value of a datetime, an enum member or a UUID; other values are returned unchanged."""
    if isinstance(value, datetime):
        return to_millis(value)
    if isinstance(value, Enum):
        return value.value
    cls = type(value)
    return str(value) if (cls.__module__, cls.__name__) == ("uuid", "UUID") else value


def retry(function: Callable[..., Any], args: tuple[Any, ...], error: Exception) -> Any:
    """Calls a function that failed again, with plain values for its arguments.

    So functions support plain values only, and only records with other values have the cost of a conversion. With a
    float argument, decimals are converted to floats as in SQL; Python has no operations of the two.
    """
    plain_args = tuple(map(plain, args))
    if any(isinstance(a, float) for a in plain_args):
        plain_args = tuple(float(a) if isinstance(a, Decimal) else a for a in plain_args)
    if all(a is b for a, b in zip(plain_args, args, strict=True)):
        raise error
    return function(*plain_args)


@lru_cache(maxsize=1024)
def _is_mapping(cls: Any) -> bool | None:
    """Whether the fields of a class are items of a mapping (True) or attributes (False); None if it has no fields."""
    if issubclass(cls, Mapping):
        return True
    # The methods of a str or a list are not fields of the data.
    return None if cls in _FIELDLESS else False


def read_field(value: Any, name: str) -> Any:
    """Returns a field of a mapping (None if it is absent) or of an object."""
    if value is None:
        return None
    cls: Any = type(value)
    mapping = _is_mapping(cls)
    if mapping:
        return value.get(name)
    if mapping is None or name[:2] == "__":  # reserved by Python
        raise AttributeError(f"a {type(value).__name__} has no field {name!r}")
    try:
        return getattr(value, name)
    except AttributeError:
        similar = suggestion(name, (n for n in dir(value) if n[0] != "_"))
        message = f"a {type(value).__name__} has no field {name!r}"
        raise AttributeError(f"{message}; {similar}" if similar else message) from None


def item(container: Any, index: Any) -> Any:
    """Returns ``container[index]``; null if a list is too short or a mapping has no such key."""
    if isinstance(container, Mapping):
        return container.get(index)
    if isinstance(index, str):
        return read_field(container, index)
    if isinstance(container, (str, bytes)):
        raise TypeError(f"a {type(container).__name__} has no elements; use substring")
    try:
        return container[index]
    except IndexError:
        return None


def equal(a: Any, b: Any) -> bool:
    """Whether two values that are not null are equal; values of different types are compared as plain values."""
    if a == b:
        return True
    kind = type(a)
    if kind is type(b) and kind is not datetime:  # naive and aware datetimes are never equal in Python
        return False
    return bool(plain(a) == plain(b))


def unequal(a: Any, b: Any) -> bool:
    """Whether two values that are not null are different."""
    return not equal(a, b)


def distinct(a: Any, b: Any) -> bool:
    """Whether two values differ; null equals null."""
    if a is None or b is None:
        return a is not b
    return not equal(a, b)
