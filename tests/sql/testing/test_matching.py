"""Values match as in ksqlDB's test tool."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from millstream.errors import SqlStatementError, SqlSyntaxError
from millstream.sql.testing.matching import difference, message_matches
from millstream.sql.testing.rest import contains, rows_difference


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, None),
        (True, True),
        ("a", "a"),
        ("AQI=", b"\x01\x02"),
        ("1.10", Decimal("1.10")),
        (1, 1),
        (4294967297, 1),
        (18446744073709551615, -1),
        (1, 1.0000001),
        (Decimal("1.5"), 1.5),
        (10, Decimal(10)),
        (100, Decimal("1E+2")),
        (Decimal("1.10"), Decimal("1.10")),
        (Decimal("1.0E7"), Decimal("1.0E7")),
        ([1, [None]], [1, [None]]),
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"A": 1}),
        ({"x": None}, {"y": None}),
        ({}, {}),
    ],
)
def test_matches(expected: Any, actual: Any) -> None:
    assert difference(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (None, 0),
        (True, 1),
        (1, True),
        (0, None),
        ("1", 1),
        ("a", "A"),
        ("1.1", Decimal("1.10")),
        ("x", Decimal("1.10")),
        (1, 2),
        (1, "1"),
        (Decimal("1.5"), 1.6),
        (1, float("nan")),
        (1, Decimal("1.0")),
        (Decimal("1.1"), Decimal("1.10")),
        (Decimal("10000000.0"), Decimal("1.0E7")),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ([], {}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"A": 1}, {"a": 1}),
        ({}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ],
)
def test_differences(expected: Any, actual: Any) -> None:
    assert difference(expected, actual) is not None


def test_a_difference_names_its_place() -> None:
    problem = difference({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, path="value")
    assert problem == "value.a[0].b is 2, expected 1"


def test_numbers_match_within_a_tolerance_where_the_case_asks_for_it() -> None:
    assert difference(Decimal("1.1"), Decimal("1.1000000001"), exact=False) is None
    assert difference(1, Decimal("1.0"), exact=False) is None
    assert difference(Decimal("1.1"), Decimal("1.2"), exact=False) is not None


def test_messages() -> None:
    syntax = SqlSyntaxError("Unknown statement 'X'", at=(1, 2), hint="write y")
    assert message_matches("line 1:2: Syntax Error\nUnknown statement", syntax)
    assert message_matches("Failed to prepare statement: Unknown", syntax)
    assert message_matches("", syntax)
    assert not message_matches("other", syntax)
    assert message_matches("it  is\nbad", SqlStatementError("it is bad", at=(3, 4)))


def test_responses_contain_what_is_listed() -> None:
    assert contains({"a": 1, "m|starts_with": "ab"}, {"a": 1, "m": "abc", "more": 2}, "r") is None
    assert contains({"m|starts_with": "b"}, {"m": "abc"}, "r") is not None
    assert contains({"a": {"b": 1}}, {"a": {}}, "r") == "r.a has no b"


def test_rows_without_order_are_a_multiset() -> None:
    rows = [{"row": 1}, {"row": 2}, {"row": 2}]
    assert rows_difference(rows, rows[::-1], "r", ordered=False) is None
    assert rows_difference(rows, rows[::-1], "r", ordered=True) is not None
    assert rows_difference(rows, [{"row": 1}, {"row": 1}, {"row": 2}], "r", ordered=False) is not None
    assert rows_difference(rows, rows[:2], "r", ordered=False) is not None
