"""Arithmetic and functions of numbers. Arguments are never null.

Numbers behave as in Python: ints do not overflow, ``/`` is true division, ``//`` and ``%`` round towards minus
infinity, and a division by zero raises ZeroDivisionError for ints, floats and decimals alike. ``div`` and ``mod`` are
SQL's: they round towards zero. Decimals have 28 digits; an operation of a decimal and a float returns a float.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

_SEQUENCES = frozenset({str, bytes, list, tuple})

# Enough digits for every DECIMAL of SQL, so that rounding to a scale does not fail.
WIDE = Context(prec=1000, rounding=ROUND_HALF_UP)


add = operator.add
subtract = operator.sub
divide = operator.truediv
floor_divide = operator.floordiv
negative = operator.neg


def multiply(a: Any, b: Any) -> Any:
    """Returns the product of two numbers; refuses Python's ``"ab" * 2``."""
    if type(a) in _SEQUENCES or type(b) in _SEQUENCES:
        raise TypeError(f"cannot multiply a {type(a).__name__} by a {type(b).__name__}")
    return a * b


def modulo(a: Any, b: Any) -> Any:
    """Returns the remainder of a floor division of two numbers; refuses Python's ``"%d" % 2``."""
    if type(a) in _SEQUENCES:
        raise TypeError(f"cannot divide a {type(a).__name__}")
    return a % b


def div(a: Any, b: Any) -> Any:
    """Returns the quotient, rounded towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return truncate(divide(a, b))


def mod(a: Any, b: Any) -> Any:
    """Returns the remainder of ``div``; it has the sign of the dividend."""
    if isinstance(a, int) and isinstance(b, int):
        remainder = abs(a) % abs(b)
        return remainder if a >= 0 else -remainder
    if isinstance(a, Decimal) and not isinstance(b, float):
        return a % b  # decimals already round towards zero
    if not b:
        raise ZeroDivisionError("modulo by zero")
    return math.fmod(a, b)


def _whole(to_int: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Returns a rounding function whose result has the type of its argument."""

    def run(x: Any) -> Any:
        if isinstance(x, float):
            return float(to_int(x)) if math.isfinite(x) else x
        return Decimal(to_int(x)) if isinstance(x, Decimal) else to_int(x)

    return run


ceil = _whole(math.ceil)
floor = _whole(math.floor)
truncate = _whole(math.trunc)


def round_half_up(x: Any, places: int = 0) -> Any:
    """Rounds half away from zero. A float is rounded by its printed digits: 2.675 to 2 places is 2.68."""
    if isinstance(x, float):
        if not math.isfinite(x):
            return x
        return float(_quantize(Decimal(repr(x)), places))
    if isinstance(x, Decimal):
        return _quantize(x, places)
    return x if places >= 0 else int(_quantize(Decimal(x), places))


def _quantize(x: Decimal, places: int) -> Decimal:
    # The second step has a scale of 0 or more: 1250 to -2 places is 1300 and not 1.3E+3.
    return WIDE.quantize(WIDE.quantize(x, Decimal((0, (1,), -places))), Decimal((0, (1,), -max(places, 0))))


def sign(x: Any) -> int:
    """-1, 0 or 1."""
    return int(x > 0) - int(x < 0)
