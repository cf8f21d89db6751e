"""How values behave at run time: reading fields, comparing, and the values that stand for others.

The functions here are the slow halves of what ``compile`` inlines, kept apart so that the fast halves stay small.
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
    """Returns the milliseconds since 1970 of a datetime; one without a zone is UTC.

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
    """Returns the value that a datetime, an enum member or a UUID stands for, and any other value as it is."""
    if isinstance(value, datetime):
        return to_millis(value)
    if isinstance(value, Enum):
        return value.value
    cls = type(value)
    return str(value) if (cls.__module__, cls.__name__) == ("uuid", "UUID") else value


def retry(function: Callable[..., Any], args: tuple[Any, ...], error: Exception) -> Any:
    """Calls a function that failed on its arguments again with what they stand for.

    So the functions need to know plain values only, and only the records with other values pay for them. A decimal
    beside a float stands for a float, as in SQL; Python has no rule for the two.
    """
    plainer = tuple(map(plain, args))
    if any(isinstance(a, float) for a in plainer):
        plainer = tuple(float(a) if isinstance(a, Decimal) else a for a in plainer)
    if all(a is b for a, b in zip(plainer, args, strict=True)):
        raise error
    return function(*plainer)


@lru_cache(maxsize=1024)
def _reads(cls: Any) -> bool | None:
    """How values of a class have fields: as a mapping (True), as attributes (False) or not at all (None)."""
    if issubclass(cls, Mapping):
        return True
    # The methods of a str or a list are not fields of the data.
    return None if cls in _FIELDLESS else False


def read_field(value: Any, name: str) -> Any:
    """Returns a field of a mapping (None if it is not there) or of an object."""
    if value is None:
        return None
    cls: Any = type(value)
    mapping = _reads(cls)
    if mapping:
        return value.get(name)
    if mapping is None or name[:2] == "__":  # the names that Python keeps for itself
        raise AttributeError(f"a {type(value).__name__} has no field {name!r}")
    try:
        return getattr(value, name)
    except AttributeError:
        near = suggestion(name, (n for n in dir(value) if n[0] != "_"))
        message = f"a {type(value).__name__} has no field {name!r}"
        raise AttributeError(f"{message}; {near}" if near else message) from None


def item(container: Any, index: Any) -> Any:
    """``container[index]``: null where a list is too short or a mapping has no such key."""
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
    """Equality of two values that are not null; values of different kinds are compared by what they stand for."""
    if a == b:
        return True
    kind = type(a)
    if kind is type(b) and kind is not datetime:  # naive and aware datetimes are never equal in Python
        return False
    return bool(plain(a) == plain(b))


def unequal(a: Any, b: Any) -> bool:
    """The opposite of ``equal``."""
    return not equal(a, b)


def distinct(a: Any, b: Any) -> bool:
    """Whether two values differ, with null as a value like others."""
    if a is None or b is None:
        return a is not b
    return not equal(a, b)
