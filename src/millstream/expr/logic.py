"""Three-valued logic, and functions that handle nulls.

A boolean is True, False or None. Other values are used by their truth value.
"""

from __future__ import annotations

from typing import Any

from millstream.expr.values import equal


def conjunction(a: Any, b: Any) -> bool | None:
    """``a AND b``: false if one is false, else null if one is null."""
    if (a is not None and not a) or (b is not None and not b):
        return False
    return None if a is None or b is None else True


def disjunction(a: Any, b: Any) -> bool | None:
    """``a OR b``: true if one is true, else null if one is null."""
    if a or b:
        return True
    return None if a is None or b is None else False


def negation(a: Any) -> bool:
    """``NOT a``; a is not null."""
    return not a


def is_null(a: Any) -> bool:
    """``a IS NULL``."""
    return a is None


def is_not_null(a: Any) -> bool:
    """``a IS NOT NULL``."""
    return a is not None


def member(value: Any, *options: Any) -> bool | None:
    """``value IN (options)``: null if the value is null, or if no option equals it and an option is null."""
    if value is None:
        return None
    if any(option is not None and equal(value, option) for option in options):
        return True
    return None if None in options else False


def between(value: Any, low: Any, high: Any) -> bool | None:
    """``value BETWEEN low AND high``, which is ``value >= low AND value <= high``."""
    if value is None:
        return None
    above = None if low is None else value >= low
    below = None if high is None else value <= high
    return conjunction(above, below)


def coalesce(*values: Any) -> Any:
    """Returns the first value that is not null."""
    return next((value for value in values if value is not None), None)


def nullif(a: Any, b: Any) -> Any:
    """Returns null if the two are equal, else the first."""
    return None if a is None or (b is not None and equal(a, b)) else a


def greatest(*values: Any) -> Any:
    """Returns the greatest of the values that are not null."""
    return max((value for value in values if value is not None), default=None)


def least(*values: Any) -> Any:
    """Returns the least of the values that are not null."""
    return min((value for value in values if value is not None), default=None)
