from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from millstream.expr import TIMESTAMP, col, compile_expr, evaluate, timestamp

DAY = 86_400_000


class Colour(Enum):
    RED = "red"


def cast(value: Any, to: str) -> Any:
    return evaluate(col("x").cast(to), value={"x": value})


@pytest.mark.parametrize(
    ("value", "to", "result"),
    [
        ("12", "int", 12),
        (" -12 ", "bigint", -12),
        (12.9, "int", 12),
        (-12.9, "int", -12),
        (Decimal("7.9"), "bigint", 7),
        (True, "int", 1),
        (datetime(1970, 1, 2, tzinfo=UTC), "bigint", DAY),
        ("1.5", "double", 1.5),
        ("1e3", "double", 1000.0),
        (3, "double", 3.0),
        (Decimal("1.5"), "double", 1.5),
        ("1.25", "decimal", Decimal("1.25")),
        (0.1, "decimal", Decimal("0.1")),
        ("1.255", "decimal(5, 2)", Decimal("1.26")),
        (-1.255, "decimal(5, 2)", Decimal("-1.26")),
        (5, "decimal(5, 2)", Decimal("5.00")),
        (999, "decimal(3, 0)", Decimal(999)),
        (0, "decimal(2, 2)", Decimal("0.00")),
        (True, "string", "true"),
        (False, "string", "false"),
        (12, "string", "12"),
        (1.5, "string", "1.5"),
        (Decimal("1E+3"), "string", "1000"),
        (datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC), "string", "2024-01-02T03:04:05.678"),
        (datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), "string", "2024-01-02T02:00:00.000"),
        (date(2024, 1, 2), "string", "2024-01-02"),
        (time(10, 30), "string", "10:30:00"),
        (UUID(int=1), "string", "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "string", "red"),
        ("yes", "boolean", True),
        (" FALSE ", "boolean", False),
        (0, "boolean", False),
        (2, "boolean", True),
        (bytearray(b"a"), "bytes", b"a"),
        ("1970-01-02", "timestamp", DAY),
        ("1970", "timestamp", 0),
        ("1970-02", "timestamp", 31 * DAY),
        ("1970-01-01T01:00", "timestamp", 3_600_000),
        ("1970-01-01 00:00:01.5", "timestamp", 1500),
        ("1970-01-01T01:00:00+01:00", "timestamp", 0),
        ("1970-01-01T00:00:00.123456789Z", "timestamp", 123),
        (DAY, "timestamp", DAY),
        (date(1970, 1, 2), "timestamp", DAY),
        (datetime(1970, 1, 2), "timestamp", DAY),  # noqa: DTZ001 - without a zone it is UTC
        ("2024-02-29", "date", date(2024, 2, 29)),
        (DAY, "date", date(1970, 1, 2)),
        (datetime(2024, 1, 2, 23, 30, tzinfo=UTC), "date", date(2024, 1, 2)),
        (date(2024, 1, 2), "date", date(2024, 1, 2)),
        ("10:15", "time", time(10, 15)),
        (3_600_000, "time", time(1)),
        (time(1), "time", time(1)),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "time", time(3)),
        (["1", None, 2], "array<int>", [1, None, 2]),
        ({"a": "1"}, "map<string, int>", {"a": 1}),
        ({"a": "1", "z": 1}, "struct<a int, b string>", {"a": 1, "b": None}),
        ({"a": object}, "any", {"a": object}),
        (None, "int", None),
    ],
)
def test_casts(value: Any, to: str, result: Any) -> None:
    actual = cast(value, to)
    assert actual == result
    assert type(actual) is type(result)


@pytest.mark.parametrize(
    ("value", "to", "error"),
    [
        ("x", "int", ValueError),
        ("1.5", "int", ValueError),
        ("1_000", "int", ValueError),
        ("١", "int", ValueError),
        ("", "int", ValueError),
        (float("nan"), "int", ValueError),
        (1 << 31, "int", OverflowError),
        (1 << 63, "bigint", OverflowError),
        ("nan", "double", ValueError),
        ("Infinity", "double", ValueError),
        ("1e999", "double", OverflowError),
        ("x", "decimal", ValueError),
        (float("inf"), "decimal", ValueError),
        (1000, "decimal(3, 0)", OverflowError),
        ("9.995", "decimal(3, 2)", OverflowError),
        ("maybe", "boolean", ValueError),
        (1.5, "boolean", TypeError),
        ("2024-13-01", "timestamp", ValueError),
        ("yesterday", "timestamp", ValueError),
        (True, "timestamp", TypeError),
        ("25:00", "time", ValueError),
        (1.5, "date", TypeError),
        (1.5, "time", TypeError),
        ("text", "bytes", TypeError),
        (b"x", "string", TypeError),
        ([], "string", TypeError),
        ([], "int", TypeError),
        ([], "double", TypeError),
        ([], "decimal", TypeError),
        ("abc", "array<string>", TypeError),
    ],
)
def test_a_value_that_cannot_be_cast_is_an_error(value: Any, to: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        cast(value, to)


def test_objects_are_cast_to_structs() -> None:
    @dataclass
    class Point:
        x: int

    assert cast(Point(1), "struct<x string>") == {"x": "1"}


def test_the_type_determines_the_text_of_an_int() -> None:
    assert evaluate(timestamp().cast("string"), timestamp=0) == "1970-01-01T00:00:00.000"
    text = col("t").cast("timestamp").cast("string")
    assert evaluate(text, value={"t": DAY}) == "1970-01-02T00:00:00.000"
    from millstream.expr import StructType

    typed = compile_expr(col("t").cast("string"), ("value",), {"value": StructType((("t", TIMESTAMP),))})
    assert typed({"t": 0}) == "1970-01-01T00:00:00.000"
    assert compile_expr(col("t").cast("string"), ("value",))({"t": 0}) == "0"


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_timestamps_round_trip_as_text(moment: datetime) -> None:
    millis = cast(moment, "timestamp")
    assert cast(cast(moment, "string"), "timestamp") == millis
    assert millis == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_round_trip_as_text(number: int) -> None:
    assert cast(cast(number, "string"), "bigint") == number
