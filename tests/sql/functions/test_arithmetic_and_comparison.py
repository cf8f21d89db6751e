"""Arithmetic, comparisons and LIKE."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any

import pytest

from millstream.errors import SqlStatementError
from millstream.sql.functions import arithmetic, comparison, distinct, like_matcher, negation
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
)

INT_MIN, INT_MAX, LONG_MIN, LONG_MAX = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (INT_MAX, "+", 1, INT_MIN),
        (INT_MIN, "-", 1, INT_MAX),
        (65536, "*", 65536, 0),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (-7, "%", 2, -1),
        (7, "%", -2, 1),
        (INT_MIN, "/", -1, INT_MIN),
    ],
)
def test_integers_compute_as_in_java(left: Any, operator: Any, right: Any, expected: Any) -> None:
    type_, compute = arithmetic(operator, INTEGER, INTEGER)
    assert (type_, compute(left, right)) == (INTEGER, expected)


def test_bigint_wraps_at_64_bits() -> None:
    type_, compute = arithmetic("+", INTEGER, BIGINT)
    assert (type_, compute(1, LONG_MAX)) == (BIGINT, LONG_MIN)


@pytest.mark.parametrize("operator", ["/", "%"])
@pytest.mark.parametrize("type_", [INTEGER, BIGINT, DecimalType(2, 1)])
def test_an_exact_zero_divisor_raises(operator: Any, type_: Any) -> None:
    zero = Decimal("0.0") if isinstance(type_, DecimalType) else 0
    with pytest.raises(ZeroDivisionError):
        arithmetic(operator, type_, type_)[1](zero + 1, zero)


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (1.0, "/", 0.0, math.inf),
        (-1.0, "/", 0.0, -math.inf),
        (1.0, "/", -0.0, -math.inf),
        (0.0, "/", 0.0, math.nan),
        (1.0, "%", 0.0, math.nan),
        (math.inf, "%", 2.0, math.nan),
        (-7.5, "%", 2.0, -1.5),
        (1e308, "*", 10.0, math.inf),
    ],
)
def test_doubles_follow_ieee_754(left: Any, operator: Any, right: Any, expected: Any) -> None:
    type_, compute = arithmetic(operator, DOUBLE, DOUBLE)
    result = compute(left, right)
    assert type_ == DOUBLE
    assert result == expected or (math.isnan(result) and math.isnan(expected))


@pytest.mark.parametrize(
    ("left", "operator", "right", "type_", "expected"),
    [
        ("12.34", "+", "9.9", "DECIMAL(5, 2)", "22.24"),
        ("12.34", "*", "9.9", "DECIMAL(7, 3)", "122.166"),
        ("12.34", "/", "2.0", "DECIMAL(9, 6)", "6.170000"),
        ("12.34", "%", "5.0", "DECIMAL(3, 2)", "2.34"),
        ("-12.34", "%", "5.0", "DECIMAL(3, 2)", "-2.34"),
    ],
)
def test_decimals_are_exact(left: Any, operator: Any, right: Any, type_: Any, expected: Any) -> None:
    result, compute = arithmetic(operator, DecimalType(4, 2), DecimalType(2, 1))
    assert str(result) == type_
    assert str(compute(Decimal(left), Decimal(right))) == expected


def test_a_quotient_that_does_not_end_raises() -> None:
    with pytest.raises(ArithmeticError, match="more digits"):
        arithmetic("/", DecimalType(2, 1), DecimalType(2, 1))[1](Decimal("1.0"), Decimal("3.0"))


def test_a_division_with_a_huge_precision_takes_no_time() -> None:
    start = time.process_time()
    with pytest.raises(ArithmeticError):
        arithmetic("/", DecimalType(10**9, 0), DecimalType(10**9, 0))[1](Decimal(1), Decimal(3))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (DecimalType(4, 2), INTEGER, "DECIMAL(13, 2)"),
        (BIGINT, DecimalType(4, 2), "DECIMAL(22, 2)"),
        (DecimalType(4, 2), DOUBLE, "DOUBLE"),
    ],
)
def test_mixed_numbers_widen(left: Any, right: Any, expected: Any) -> None:
    type_, compute = arithmetic("+", left, right)
    assert str(type_) == expected
    one = {DOUBLE: 1.0, INTEGER: 1, BIGINT: 1}
    assert compute(one.get(left, Decimal("1.00")), one.get(right, Decimal("1.00"))) == 2


def test_texts_are_joined_with_null_as_text() -> None:
    type_, compute = arithmetic("+", STRING, STRING)
    assert (type_, compute("a", None)) == (STRING, "anull")


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (BOOLEAN, DecimalType(2, 1), "Unsupported arithmetic types. BOOLEAN DECIMAL"),
        (DATE, INTEGER, "Unsupported arithmetic types. DATE INTEGER"),
        (STRING, INTEGER, "Unsupported arithmetic types. STRING INTEGER"),
        (MapType(INTEGER, STRING), None, "Arithmetic on types MAP<INTEGER, STRING> and null are not supported."),
    ],
)
def test_arithmetic_on_other_types_is_refused(left: Any, right: Any, message: Any) -> None:
    with pytest.raises(SqlStatementError) as caught:
        arithmetic("+", left, right)
    assert message in str(caught.value)


def test_texts_have_no_other_arithmetic() -> None:
    with pytest.raises(SqlStatementError):
        arithmetic("-", STRING, STRING)


def test_negation_keeps_the_type() -> None:
    assert negation(INTEGER)(INT_MIN) == INT_MIN
    assert str(negation(DecimalType(3, 2))(Decimal("1.50"))) == "-1.50"
    assert str(negation(DecimalType(3, 2))(Decimal("0.00"))) == "0.00"
    with pytest.raises(SqlStatementError):
        negation(STRING)


# ----- comparison ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_type", "left", "operator", "right_type", "right", "expected"),
    [
        (INTEGER, 1, "=", DecimalType(3, 2), Decimal("1.00"), True),
        (DecimalType(2, 1), Decimal("1.0"), "=", DecimalType(3, 2), Decimal("1.00"), True),
        (DOUBLE, 0.1, "=", DecimalType(2, 1), Decimal("0.1"), True),
        (BIGINT, 2**53 + 1, "=", DOUBLE, float(2**53), True),
        (INTEGER, 1, "<", DOUBLE, 1.5, True),
        (STRING, "a", "<", STRING, "b", True),
        (STRING, "\U0001f600", "<", STRING, "\uffff", True),
        (STRING, "1970-01-02", "=", DATE, 1, True),
        (DATE, 1, ">", STRING, "1970", True),
        (TIME, 36_000_000, "<=", STRING, "10:00", True),
        (TIMESTAMP, 0, "=", STRING, "1970-01-01T01:00+0100", True),
        (DATE, 1, "=", TIMESTAMP, 86_400_000, True),
        (TIMESTAMP, 86_399_999, "<", DATE, 1, True),
        (BYTES, b"\x80", "<", BYTES, b"\x01", True),
        (BOOLEAN, True, "<>", BOOLEAN, False, True),
        (ArrayType(INTEGER), [1, None], "=", ArrayType(INTEGER), [1, None], True),
        (MapType(STRING, INTEGER), {"a": 1}, "=", MapType(STRING, INTEGER), {"a": 2}, False),
    ],
)
def test_a_comparison(left_type: Any, left: Any, operator: Any, right_type: Any, right: Any, expected: Any) -> None:
    assert comparison(operator, left_type, right_type)(left, right) is expected


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [
        (INTEGER, "=", STRING),
        (BOOLEAN, "<", BOOLEAN),
        (ArrayType(INTEGER), ">", ArrayType(INTEGER)),
        (DATE, "=", TIME),
        (BOOLEAN, "=", INTEGER),
        (TIMESTAMP, "=", BIGINT),
        (BYTES, "=", STRING),
    ],
)
def test_types_that_cannot_be_compared(left: Any, operator: Any, right: Any) -> None:
    with pytest.raises(SqlStatementError, match="Cannot compare"):
        comparison(operator, left, right)


def test_the_message_shows_both_sides() -> None:
    with pytest.raises(SqlStatementError) as caught:
        comparison(">=", INTEGER, STRING, ("ID", "'x'"))
    assert "Cannot compare ID (INTEGER) to 'x' (STRING) with GREATER_THAN_OR_EQUAL." in str(caught.value)
    with pytest.raises(SqlStatementError, match="Comparison with NULL not supported: ID = NULL"):
        comparison("=", INTEGER, None, ("ID", "NULL"))


def test_null_is_a_value_for_distinct() -> None:
    differ = distinct(INTEGER, BIGINT)
    assert [differ(1, None), differ(None, None), differ(1, 1), differ(1, 2)] == [True, False, False, True]


# ----- LIKE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "expected"),
    [
        ("a%", None, "abc", True),
        ("%c", None, "abc", True),
        ("a_c", None, "abc", True),
        ("a_c", None, "ac", False),
        ("A%", None, "abc", False),
        ("ab%ba", None, "aba", False),
        ("%a%b%", None, "xxaxxbxx", True),
        ("%b%a%", None, "xxaxxbxx", False),
        ("a.c", None, "abc", False),
        ("10!%", "!", "10%", True),
        ("10!%", "!", "100", False),
        ("!!", "!", "!", True),
        ("%", None, "", True),
        ("%", None, "a\nb", False),
        ("_", None, "\n", False),
        ("a%\n%b", None, "ax\nyb", True),
    ],
)
def test_like(pattern: Any, escape: Any, text: Any, expected: Any) -> None:
    assert like_matcher(pattern, escape)(text) is expected


def test_a_pattern_must_not_end_with_its_escape_character() -> None:
    with pytest.raises(ValueError, match="must not end"):
        like_matcher("abc!", "!")


@pytest.mark.parametrize("text", ["a" * 5000, "a" * 2000 + "\n"])
def test_like_takes_no_exponential_time(text: Any) -> None:
    start = time.process_time()
    assert not like_matcher("%a" * 20 + "%b")(text)
    assert time.process_time() - start < 2


def test_nan_is_neither_equal_to_a_number_nor_different() -> None:
    for symbol in ("=", "<>", "<", ">="):
        assert not comparison(symbol, DOUBLE, DOUBLE)(math.nan, 1.0)
        assert not comparison(symbol, DOUBLE, INTEGER)(math.nan, 1)
