"""Compares expected values of test files with decoded values."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.errors import SqlError, SqlSyntaxError

_TOLERANCE = 1e-6
_SHOWN = 200


def difference(expected: Any, actual: Any, *, exact: bool = True, path: str = "") -> str | None:
    """Returns the first difference between JSON and a decoded value, None if they match.

    Args:
        expected: JSON, with decimals for all numbers that are not integers.
        actual: The decoded value: dict, list, str, bytes, bool, int, float, Decimal or None.
        exact: Decimals must have the same scale. Otherwise numbers match within 1e-6.
        path: The place of the value in the record.
    """
    match expected:
        case dict():
            return _object_difference(expected, actual, exact, path)
        case list():
            return _array_difference(expected, actual, exact, path)
        case None | bool():
            matches = actual is expected
        case str():
            matches = _matches_text(expected, actual)
        case _:
            matches = _matches_number(expected, actual, exact)
    return None if matches else f"{path or 'it'} is {_shown(actual)}, expected {_shown(expected)}"


def _object_difference(expected: dict[str, Any], actual: Any, exact: bool, path: str) -> str | None:
    if not isinstance(actual, Mapping) or len(actual) != len(expected):
        return f"{path or 'it'} is {_shown(actual)}, expected {_shown(expected)}"
    for name, value in expected.items():
        found = actual.get(name)
        if found is None:  # a member that is missing is null, as in Java
            found = actual.get(name.upper())
        problem = difference(value, found, exact=exact, path=f"{path}.{name}" if path else name)
        if problem is not None:
            return problem
    return None


def _array_difference(expected: list[Any], actual: Any, exact: bool, path: str) -> str | None:
    if not isinstance(actual, list | tuple) or len(actual) != len(expected):
        return f"{path or 'it'} is {_shown(actual)}, expected {_shown(expected)}"
    problems = (
        difference(value, other, exact=exact, path=f"{path}[{index}]")
        for index, (value, other) in enumerate(zip(expected, actual, strict=True))
    )
    return next((problem for problem in problems if problem is not None), None)


def _matches_text(expected: str, actual: Any) -> bool:
    match actual:
        case bytes():
            return base64.b64encode(actual).decode() == expected
        case Decimal():
            try:
                return _same_decimal(Decimal(expected), actual)
            except InvalidOperation:
                return False
    return type(actual) is str and actual == expected


def _matches_number(expected: int | Decimal, actual: Any, exact: bool) -> bool:
    match actual:
        case bool():
            return False
        case int():
            number = int(expected)  # Java truncates, and takes the low bits
            return actual == _wrapped(number, 64) or actual == _wrapped(number, 32)
        case float():
            return _close(expected, actual)
        case Decimal():
            if not exact:
                return _close(expected, actual)
            if isinstance(expected, int):
                exponent = actual.as_tuple().exponent
                return isinstance(exponent, int) and exponent >= 0 and actual == expected
            return _same_decimal(expected, actual)
    return False


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _close(expected: int | Decimal, actual: float | Decimal) -> bool:
    number = float(actual)
    return not math.isnan(number) and abs(float(expected) - number) < _TOLERANCE


def _same_decimal(expected: Decimal, actual: Decimal) -> bool:
    return expected == actual and expected.as_tuple().exponent == actual.as_tuple().exponent


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# ----- messages of errors --------------------------------------------------------------------------------------------


def message_matches(expected: str, error: BaseException) -> bool:
    r"""Whether an error contains an expected message, apart from spaces.

    The place of our errors is compared in ksqlDB's form, ``line 1:2: Syntax Error``.

    >>> message_matches(
    ...     "line 1:2: Syntax Error\nUnknown statement 'X'", SqlSyntaxError("Unknown statement 'X'", at=(1, 2))
    ... )
    True
    """
    texts = [str(error)]
    if isinstance(error, SqlError):
        place = "" if error.line is None else f"line {error.line}:{error.column}: "
        kind = "Syntax Error " if isinstance(error, SqlSyntaxError) else ""
        texts += [f"{place}{kind}{error.message}", f"{place}{error.message}", f"{error.message} {error.hint or ''}"]
    wanted = _plain(expected).removeprefix("Failed to prepare statement: ")
    return any(wanted in _plain(text) for text in texts)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
