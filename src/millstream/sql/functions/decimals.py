"""DECIMAL values: exact, with a precision and a scale that a result must fit."""

from __future__ import annotations

import decimal
from decimal import ROUND_HALF_UP, Decimal

from millstream.sql.types import DecimalType

MAX_DIGITS = 100_000
"""A value with more digits raises: a bound on memory and time, far beyond what formats can carry."""

CONTEXT = decimal.Context(prec=MAX_DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=ROUND_HALF_UP)
EXACT = decimal.Context(
    prec=MAX_DIGITS,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow, decimal.Inexact],
)


def unit(scale: int) -> Decimal:
    """Returns 10 to the power of -scale, which carries the scale."""
    return Decimal((0, (1,), -scale))


def _check_size(value: Decimal, type_: DecimalType) -> None:
    if not value.is_finite():
        raise ArithmeticError(f"Numeric field overflow: {value} is no number")
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise ArithmeticError(
            f"Numeric field overflow: A field with precision {type_.precision} and scale {type_.scale} "
            f"must round to an absolute value less than 10^{type_.precision - type_.scale}. Got {value:f}"
        )


def fit(value: Decimal, type_: DecimalType) -> Decimal:
    """Brings a value to the scale of a type, rounding half up; raises if it is too large before that.

    >>> fit(Decimal("1.25"), DecimalType(2, 1)), fit(Decimal("9.99"), DecimalType(2, 1))
    (Decimal('1.3'), Decimal('10.0'))
    """
    _check_size(value, type_)
    return value.quantize(unit(type_.scale), ROUND_HALF_UP, CONTEXT)


def fit_double(value: float, type_: DecimalType) -> Decimal:
    """Brings a double to a type: its exact binary value, rounded to the precision, then to the scale.

    >>> fit_double(1.005, DecimalType(3, 2)), fit_double(1.005, DecimalType(4, 3))
    (Decimal('1.00'), Decimal('1.005'))
    """
    rounding = CONTEXT.copy()
    rounding.prec = type_.precision
    return fit(rounding.create_decimal(value), type_)


def ensure_fit(value: Decimal, type_: DecimalType) -> Decimal:
    """Brings a value to the scale of a type; raises if that would lose digits.

    >>> ensure_fit(Decimal("1.2"), DecimalType(4, 2))
    Decimal('1.20')
    """
    _check_size(value, type_)
    try:
        return value.quantize(unit(type_.scale), context=EXACT)
    except decimal.Inexact:
        raise ArithmeticError(
            f"Cannot fit decimal '{value:f}' into {type_} without rounding. (Requires {_needed(value)})"
        ) from None


def _needed(value: Decimal) -> str:
    _sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return f"{max(len(digits) + max(exponent, 0), scale)},{scale}"


def literal_decimal(value: Decimal) -> DecimalType:
    """Returns the type of a literal: its digits; one digit before the point if it is below 1.

    >>> print(literal_decimal(Decimal("12.50")), literal_decimal(Decimal("0.05")), literal_decimal(Decimal("0.0")))
    DECIMAL(4, 2) DECIMAL(3, 2) DECIMAL(2, 1)
    """
    _sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    if value.adjusted() < 0 or not value:
        return DecimalType(scale + 1, scale)
    return DecimalType(len(digits) + max(exponent, 0), scale)


def widest(left: DecimalType, right: DecimalType) -> DecimalType:
    """Returns the type that holds both: the larger number of integer digits, the larger scale."""
    scale = max(left.scale, right.scale)
    return DecimalType(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def result_type(operator: str, left: DecimalType, right: DecimalType) -> DecimalType:
    """Returns the type of an arithmetic expression.

    >>> [str(result_type(op, DecimalType(4, 2), DecimalType(5, 1))) for op in "+*/%"]
    ['DECIMAL(7, 2)', 'DECIMAL(10, 3)', 'DECIMAL(11, 8)', 'DECIMAL(4, 2)']
    """
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if operator in {"+", "-"}:
        return DecimalType(max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2))
    if operator == "*":
        return DecimalType(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return DecimalType(p1 - s1 + s2 + scale, scale)
    return DecimalType(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))


def divide(left: Decimal, right: Decimal, type_: DecimalType) -> Decimal:
    """Divides; raises if the quotient does not end within the precision of the result."""
    # A quotient that ends has no more digits than this, so a larger precision would only cost time.
    digits = len(left.as_tuple().digits) + 4 * len(right.as_tuple().digits) + 10
    context = EXACT.copy()
    context.prec = max(1, min(type_.precision, digits, MAX_DIGITS))
    if not right:
        raise ZeroDivisionError("Division by zero")
    try:
        quotient = context.divide(left, right)
    except decimal.Inexact:
        raise ArithmeticError("Rounding necessary: the exact quotient has more digits than its type") from None
    return ensure_fit(quotient, type_)
