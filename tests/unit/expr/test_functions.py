from __future__ import annotations

import hashlib
import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.expr import Expr, col, evaluate, functions as f, lit, value
from millstream.expr.catalog import CATALOG
from millstream.expr.tree import Call

HOUR, DAY = 3_600_000, 86_400_000
LEAP = int(datetime(2024, 2, 29, 13, 45, 30, 123_000, tzinfo=UTC).timestamp() * 1000)


def ts(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (f.initcap("the  BIG dog"), "The  Big Dog"),
        (f.length("héé"), 3),
        (f.length(b"abc"), 3),
        (f.length(lit([1, 2])), 2),
        (f.reverse(b"ab"), b"ba"),
        (f.substring("stream", 3), "ream"),
        (f.substring("stream", 0, 2), "st"),
        (f.substring("stream", -3), "eam"),
        (f.substring("stream", -3, 2), "ea"),
        (f.substring("stream", -30, 2), "st"),
        (f.substring("stream", 10), ""),
        (f.substring("stream", 2, -1), ""),
        (f.substring(b"stream", 2, 2), b"tr"),
        (f.concat(None, None), ""),
        (f.concat(b"a", b"b"), b"ab"),
        (lit("a") + None, None),
        (f.split("abc", ""), ["a", "b", "c"]),
        (f.split("abc", ","), ["abc"]),
        (f.split(",", ","), ["", ""]),
        (f.contains(b"abc", b"b"), True),
        (f.instr("abc", "x"), 0),
        (f.lpad("abcd", 2, "x"), "ab"),
        (f.lpad("a", 4, "xy"), "xyxa"),
        (f.rpad("a", 4, "xy"), "axyx"),
        (f.rpad("abcd", 2, "x"), "ab"),
        (f.lpad("a", -1, "x"), None),
        (f.rpad("a", 3, ""), None),
        (f.like("abc", "_b_"), True),
        (f.like("abc", "b"), False),
        (f.like("a\nc", "a%"), True),
        (f.like("a.c", "a.c"), True),
        (f.like("abc", "a.c"), False),
        (f.like("50%", "50!%", "!"), True),
        (f.like("500", "50!%", "!"), False),
        (f.like("ABC", "abc"), False),
        (f.like(None, "a"), None),
        (f.regexp_extract("a1b22", "[0-9]+"), "1"),
        (f.regexp_extract("abc", "x"), None),
        (f.regexp_extract("abc", "b", 1), None),
        (f.regexp_like(col("missing"), "b"), None),
        (f.regexp_like("abc", "^b"), False),
        (f.from_bytes(b"\xc3\xa9", "utf8"), "é"),
        (f.regexp_replace("john smith", r"(\w+) (\w+)", r"\2 \1"), "smith john"),
        (f.md5("abc"), hashlib.md5(b"abc").hexdigest()),
        (f.sha256(b"abc"), hashlib.sha256(b"abc").hexdigest()),
        (f.to_bytes("YWI=", "base64"), b"ab"),
        (f.from_bytes(b"ab", "BASE64"), "YWI="),
        (f.from_bytes(b"\xff", "hex"), "ff"),
        (f.to_bytes("é", "UTF-8"), b"\xc3\xa9"),
        (f.json_extract('{"a": [{"b": 1}]}', "$.a[0].b"), 1),
        (f.json_extract('{"a": [1, 2]}', "a[-1]"), 2),
        (f.json_extract('{"a": [1, 2]}', "a[5]"), None),
        (f.json_extract('{"a": 1}', "a.b"), None),
        (f.json_extract("[1]", "$"), [1]),
    ],
)
def test_strings(expr: Expr, result: Any) -> None:
    assert evaluate(expr, value={}) == result


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (f.abs(Decimal("-1.5")), Decimal("1.5")),
        (f.ceil(3), 3),
        (f.ceil(Decimal("1.2")), Decimal(2)),
        (f.ceil(math.inf), math.inf),
        (f.floor(-1.5), -2.0),
        (f.trunc(1.9), 1.0),
        (f.round(2.5), 3.0),
        (f.round(-2.5), -3.0),
        (f.round(0.5), 1.0),
        (f.round(1234, -2), 1200),
        (f.round(1250, -2), 1300),
        (f.round(1250.0, -2), 1300.0),
        (f.round(12, 3), 12),
        (f.round(Decimal("1.255"), 2), Decimal("1.26")),
        (f.round(math.inf, 2), math.inf),
        (f.sign(Decimal("-0.5")), -1),
        (f.sign(0.0), 0),
        (f.power(2, -1), 0.5),
        (f.ln(math.e), 1.0),
        (f.div(7, -2), -3),
        (f.div(-7.5, 2), -3.0),
        (f.mod(7, -2), 1),
        (f.mod(-7.5, 2), -1.5),
        (f.mod(Decimal(-7), 2), Decimal(-1)),
        (lit(7) / 2, 3.5),
        (lit(-7) // 2, -4),
        (lit(-7) % 2, 1),
        (lit(1 << 62) * 4, 1 << 64),
        (lit(Decimal("0.5")) + 0.25, 0.75),
        (0.25 + lit(Decimal("0.5")), 0.75),
        (lit(Decimal("0.5")) * 2, Decimal("1.0")),
        (lit(Decimal("1.0")) == 1, True),
        (lit(Decimal(1)) / 4, Decimal("0.25")),
        (f.div(lit(Decimal("7.5")), 2.0), 3.0),
    ],
)
def test_numbers(expr: Expr, result: Any) -> None:
    actual = evaluate(expr)
    assert actual == result
    assert type(actual) is type(result)


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (f.date_trunc("second", LEAP), ts(2024, 2, 29, 13, 45, 30)),
        (f.date_trunc("MINUTES", LEAP), ts(2024, 2, 29, 13, 45)),
        (f.date_trunc("day", LEAP), ts(2024, 2, 29)),
        (f.date_trunc("week", LEAP), ts(2024, 2, 26)),
        (f.date_trunc("month", LEAP), ts(2024, 2, 1)),
        (f.date_trunc("quarter", LEAP), ts(2024, 1, 1)),
        (f.date_trunc("year", LEAP), ts(2024, 1, 1)),
        (f.date_trunc("hour", -1), -HOUR),
        (f.timestamp_add("hours", -2, LEAP), LEAP - 2 * HOUR),
        (f.timestamp_add("year", 1, LEAP), ts(2025, 2, 28, 13, 45, 30) + 123),
        (f.timestamp_add("month", -14, ts(2024, 1, 31)), ts(2022, 11, 30)),
        (f.extract("year", LEAP), 2024),
        (f.extract("quarter", LEAP), 1),
        (f.extract("month", LEAP), 2),
        (f.extract("week", LEAP), 9),
        (f.extract("day", LEAP), 29),
        (f.extract("doy", LEAP), 60),
        (f.extract("dow", LEAP), 4),
        (f.extract("dow", ts(2024, 3, 3)), 0),
        (f.extract("isodow", ts(2024, 3, 3)), 7),
        (f.extract("hour", LEAP), 13),
        (f.extract("minute", LEAP), 45),
        (f.extract("second", LEAP), 30),
        (f.extract("millisecond", LEAP), 123),
        (f.extract("hours", LEAP), 13),
        (f.extract("month", date(2024, 5, 1)), 5),
        (f.format_timestamp(0, "%H:%M", "Asia/Tokyo"), "09:00"),
        (f.parse_timestamp("09:00 1970-01-01", "%H:%M %Y-%m-%d", "Asia/Tokyo"), 0),
        (f.parse_timestamp("1970-01-01 01:00 +0100", "%Y-%m-%d %H:%M %z", "Asia/Tokyo"), 0),
        (lit(datetime(2024, 1, 1, tzinfo=UTC)) < datetime(2024, 1, 2, tzinfo=UTC), True),
    ],
)
def test_datetimes(expr: Expr, result: Any) -> None:
    assert evaluate(expr) == result


@given(st.integers(-(10**13), 10**13), st.sampled_from(["second", "hour", "day", "week", "month", "quarter", "year"]))
def test_truncation_is_idempotent_and_never_later(moment: int, unit: str) -> None:
    once = evaluate(f.date_trunc(unit, moment))
    assert once <= moment < evaluate(f.timestamp_add(unit, 1, once))
    assert evaluate(f.date_trunc(unit, once)) == once


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (lit([1, 2, 3])[0], 1),
        (lit([1, 2, 3])[-1], 3),
        (lit([1, 2, 3])[3], None),
        (f.element_at([1, 2, 3], 1), 1),
        (f.element_at([1, 2, 3], -1), 3),
        (f.element_at([1, 2, 3], 0), None),
        (f.element_at([1, 2, 3], 4), None),
        (f.element_at([1, 2, 3], -4), None),
        (f.element_at(col("map"), "a"), 1),
        (col("map")["a"], 1),
        (col("map")[lit("a")], 1),
        (col("map")["zz"], None),
        (value()[lit("map")]["a"], 1),
        (f.array_contains([1, None], None), True),
        (f.array_contains([1], 2), False),
        (f.array_contains(None, 2), None),
        (f.array_join(["a", None, "b"], ","), "a,b"),
        (f.map_keys(col("map")), ["a"]),
        (f.map_values(col("map")), [1]),
        (f.array(), []),
    ],
)
def test_containers(expr: Expr, result: Any) -> None:
    assert evaluate(expr, value={"map": {"a": 1}}) == result


@pytest.mark.parametrize(
    ("expr", "error"),
    [
        (lit(1) / 0, ZeroDivisionError),
        (lit(1.0) / 0.0, ZeroDivisionError),
        (lit(Decimal(1)) / 0, ZeroDivisionError),
        (lit(1) // 0, ZeroDivisionError),
        (lit(1) % 0, ZeroDivisionError),
        (f.div(1, 0), ZeroDivisionError),
        (f.mod(1, 0), ZeroDivisionError),
        (f.mod(1.0, 0), ZeroDivisionError),
        (f.sqrt(-1), ValueError),
        (f.ln(0), ValueError),
        (f.json_extract("{", "a"), ValueError),
        (f.like("a", "a!", "!"), ValueError),
        (f.like("a", "a", "!!"), ValueError),
        (f.date_trunc(col("unit"), 0), ValueError),
        (f.to_bytes("zz", "hex"), ValueError),
        (col("text") * 2, TypeError),
        (col("text") % 2, TypeError),
        (col("text") + 2, TypeError),
        (col("text")[0], TypeError),
        (f.contains(col("list"), "a"), TypeError),
        (col("list") * 2, TypeError),
    ],
)
def test_errors_are_raised_and_try_makes_them_null(expr: Expr, error: type[Exception]) -> None:
    row = {"unit": "fortnight", "text": "%d", "list": ["a"]}
    with pytest.raises(error):
        evaluate(expr, value=row)
    assert evaluate(f.try_(expr), value=row) is None


class Colour(Enum):
    RED = "red"


STANDING_FOR = {
    "at": datetime(2024, 2, 29, 13, 45, 30, 123_000, tzinfo=UTC),
    "naive": datetime(2024, 2, 29, 13, 45, 30, 123_000),  # noqa: DTZ001
    "id": uuid.UUID(int=1),
    "colour": Colour.RED,
}


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (col("at") == LEAP, True),
        (col("at") != LEAP, False),
        (col("at") == col("naive"), True),
        (col("at") > LEAP - 1, True),
        (col("at") <= col("naive"), True),
        (col("at").in_(1, LEAP), True),
        (col("at").between(LEAP, LEAP + 1), True),
        (col("at") + 1, LEAP + 1),
        (f.greatest(col("at"), 5), LEAP),
        (f.date_trunc("day", col("at")), ts(2024, 2, 29)),
        (f.date_trunc("month", col("at")), ts(2024, 2, 1)),
        (f.timestamp_add("day", 1, col("at")), LEAP + DAY),
        (f.timestamp_add("month", 1, col("at")), ts(2024, 3, 29, 13, 45, 30) + 123),
        (f.extract("hour", col("at")), 13),
        (f.extract("hour", col("naive")), 13),
        (f.format_timestamp(col("at"), "%Y"), "2024"),
        (f.unix_timestamp(col("at")), LEAP),
        (col("id") == str(uuid.UUID(int=1)), True),
        (col("id") == "x", False),
        (col("id").in_("x", str(uuid.UUID(int=1))), True),
        (col("id").upper().length(), 36),
        (f.concat("id-", col("id")), f"id-{uuid.UUID(int=1)}"),
        (col("id").substring(-1), "1"),
        (col("colour") == "red", True),
        (col("colour").upper(), "RED"),
        (col("colour").in_("red", "blue"), True),
        (col("colour").is_distinct_from("red"), False),
    ],
)
def test_datetimes_enums_and_uuids_are_converted_to_plain_values(expr: Expr, result: Any) -> None:
    assert evaluate(expr, value=STANDING_FOR) == result


STRICT = [function for function in CATALOG.values() if function.strict]


@pytest.mark.parametrize("function", STRICT, ids=[function.name for function in STRICT])
def test_strict_functions_are_null_for_a_null(function: Any) -> None:
    count = len(function.parameters)
    for i in range(count):
        row = {f"x{j}": None if j == i else ["hour", 1][j % 2] for j in range(count)}
        # Arguments before a null are evaluated, so only a null first argument makes the others irrelevant.
        if i == 0:
            assert evaluate(Call(function.name, tuple(col(name) for name in row)), value=row) is None
    constants = tuple(lit(None) for _ in range(count))
    assert evaluate(Call(function.name, constants)) is None


def test_every_function_is_documented_and_has_an_example() -> None:
    for name in f.__all__:
        function = getattr(f, name)
        assert function.__doc__
        assert function.__name__ == name
        assert ">>>" in function.__doc__ or name.startswith("map_")
