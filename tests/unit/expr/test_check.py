from __future__ import annotations

from decimal import Decimal

import pytest

from millstream.errors import ExpressionError
from millstream.expr import (
    ANY,
    Expr,
    agg,
    array,
    col,
    functions as f,
    key,
    lit,
    parse_type,
    struct,
    timestamp,
    type_of,
    value,
    when,
)

SCHEMA = parse_type(
    """STRUCT<amount BIGINT, small INT, price DOUBLE, cost DECIMAL(10, 2), name STRING, raw BYTES, ok BOOLEAN,
       at TIMESTAMP, day DATE, clock TIME, tags ARRAY<STRING>, counts MAP<STRING, INT>, any ANY,
       customer STRUCT<id BIGINT, name STRING>, by_id MAP<BIGINT, STRING>>"""
)
ROLES = {"value": SCHEMA, "key": parse_type("STRING")}
amount, price, name, at = col("amount"), col("price"), col("name"), col("at")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (amount, "BIGINT"),
        (col("customer.name"), "STRING"),
        (value(), str(SCHEMA)),
        (key(), "STRING"),
        (timestamp(), "TIMESTAMP"),
        (agg(), "ANY"),
        (lit(1), "INT"),
        (lit(1 << 40), "BIGINT"),
        (lit(1.0), "DOUBLE"),
        (lit(Decimal(1)), "DECIMAL"),
        (lit(b""), "BYTES"),
        (lit(None), "NULL"),
        (lit(True), "BOOLEAN"),
        (amount + 1, "BIGINT"),
        (col("small") + 1, "INT"),
        (amount * price, "DOUBLE"),
        (amount / 2, "DOUBLE"),
        (amount // 2, "BIGINT"),
        (col("cost") + amount, "DECIMAL"),
        (col("cost") / 2, "DECIMAL"),
        (col("cost") * price, "DOUBLE"),
        (name + "x", "STRING"),
        (col("raw") + b"x", "BYTES"),
        (name + col("any"), "ANY"),
        (amount + col("any"), "ANY"),
        (-price, "DOUBLE"),
        (at + 1000, "TIMESTAMP"),
        (1000 + at, "TIMESTAMP"),
        (at - at, "BIGINT"),
        (at - 5, "TIMESTAMP"),
        (at - col("any"), "ANY"),
        (col("any") - at, "BIGINT"),
        (col("counts").cast("map<string, string>"), "MAP<STRING, STRING>"),
        (at > 5, "BOOLEAN"),
        (amount > price, "BOOLEAN"),
        (col("any") > name, "BOOLEAN"),
        (col("tags") == array("a"), "BOOLEAN"),
        (col("tags")[0], "STRING"),
        (col("counts")["x"], "INT"),
        (col("counts")[name], "INT"),
        (col("by_id")[amount], "STRING"),
        (col("any")["x"][0], "ANY"),
        (f.element_at(col("tags"), 1), "STRING"),
        (f.map_keys(col("counts")), "ARRAY<STRING>"),
        (f.map_values(col("counts")), "ARRAY<INT>"),
        (f.map_values(col("any")), "ARRAY<ANY>"),
        (array(1, 2.5, None), "ARRAY<DOUBLE>"),
        (array(), "ARRAY<ANY>"),
        (struct(a=amount, b=name), "STRUCT<a BIGINT, b STRING>"),
        (when(col("ok"), 1).otherwise(2.5), "DOUBLE"),
        (when(col("ok"), None).otherwise(name), "STRING"),
        (f.coalesce(None, amount), "BIGINT"),
        (f.coalesce(amount, col("any")), "ANY"),
        (f.nullif(amount, 0), "BIGINT"),
        (f.greatest(amount, price), "DOUBLE"),
        (f.abs(price), "DOUBLE"),
        (f.round(col("cost"), 1), "DECIMAL(10, 2)"),
        (f.div(amount, 2), "BIGINT"),
        (f.sqrt(amount), "DOUBLE"),
        (name.substring(1), "STRING"),
        (col("raw").substring(1), "BYTES"),
        (name.split(","), "ARRAY<STRING>"),
        (f.date_trunc("hour", at), "TIMESTAMP"),
        (f.date_trunc("hour", amount), "TIMESTAMP"),
        (f.extract("year", col("day")), "INT"),
        (f.json_extract(name, "a"), "ANY"),
        (f.try_(amount), "BIGINT"),
        (f.array_contains(col("tags"), "x"), "BOOLEAN"),
        (name.cast("int"), "INT"),
        (at.cast("bigint"), "BIGINT"),
        (col("day").cast("timestamp"), "TIMESTAMP"),
        (col("tags").cast("array<int>"), "ARRAY<INT>"),
        (col("customer").cast("struct<id string, extra int>"), "STRUCT<id STRING, extra INT>"),
        (col("ok").cast("int"), "INT"),
        (amount.cast("boolean"), "BOOLEAN"),
        (col("any").cast("bytes"), "BYTES"),
    ],
)
def test_the_type_of_an_expression(expr: Expr, text: str) -> None:
    assert str(type_of(expr, ROLES)) == str(parse_type(text))


@pytest.mark.parametrize(
    ("expr", "message", "hint"),
    [
        (col("amonut") * 2, "the value has no field 'amonut', in `amonut * 2`", "did you mean 'amount'?"),
        (col("customer.nam"), "`customer` has no field 'nam', in `customer.nam`", "did you mean 'name'?"),
        (col("customer.x"), "`customer` has no field 'x', in `customer.x`", "its fields are id, name"),
        (amount["x"], "`amount` is BIGINT and has no field 'x', in `amount.x`", None),
        (key("id"), "the key is STRING and has no field 'id', in `key.id`", None),
        (col("by_id")["x"], "`by_id` is MAP<BIGINT, STRING> and has no field 'x', in `by_id.x`", None),
        (name * 2 > 1, "* does not take STRING, in `name * 2`, part of `name * 2 > 1`", None),
        (name + 1, "STRING and INT have no common type, in `name + 1`", "cast one of them"),
        (name == 1, "STRING and INT have no common type, in `name = 1`", "cast one of them"),
        (at > "2024-01-01", "TIMESTAMP and STRING have no common type, in `at > '2024-01-01'`", "cast one of them"),
        (col("counts") < col("counts"), "MAP<STRING, INT> has no order, in `counts < counts`", None),
        (amount.upper(), "upper(text: string) does not take BIGINT as text, in `upper(amount)`", None),
        (~amount, "not(condition: boolean) does not take BIGINT as condition, in `NOT amount`", None),
        (f.coalesce(name, 1), "STRING and INT have no common type, in `coalesce(name, 1)`", "cast one of them"),
        (at * 2, "* does not take TIMESTAMP, in `at * 2`", None),
        (at + at, "TIMESTAMP + TIMESTAMP has no meaning, in `at + at`", None),
        (-name, "negative(x: number) does not take STRING as x, in `-name`", None),
        (amount[0], "BIGINT has no elements, in `amount[0]`", None),
        (col("tags")[name], "ARRAY<STRING> has no element at a STRING, in `tags[name]`", None),
        (col("counts")[1], "STRING and INT have no common type, in `counts[1]`", "cast one of them"),
        (
            f.array_contains(col("tags"), 1),
            "STRING and INT have no common type, in `array_contains(tags, 1)`",
            "cast one of them",
        ),
        (
            when(amount, 1),
            "a condition is BOOLEAN, not BIGINT, in `amount`, part of `CASE WHEN amount THEN 1 END`",
            None,
        ),
        (
            when(col("ok"), 1).otherwise("x"),
            "INT and STRING have no common type, in `CASE WHEN ok THEN 1 ELSE 'x' END`",
            "cast the results to one type",
        ),
        (col("tags").cast("int"), "ARRAY<STRING> cannot be cast to INT, in `CAST(tags AS INT)`", None),
        (col("raw").cast("string"), "BYTES cannot be cast to STRING, in `CAST(raw AS STRING)`", None),
        (
            col("tags").cast("array<bytes>"),
            "ARRAY<STRING> cannot be cast to ARRAY<BYTES>, in `CAST(tags AS ARRAY<BYTES>)`",
            None,
        ),
        (
            struct(x=-name),
            "negative(x: number) does not take STRING as x, in `-name`, part of `STRUCT(x := -name)`",
            None,
        ),
    ],
)
def test_an_expression_that_does_not_fit_the_types_is_refused(expr: Expr, message: str, hint: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        type_of(expr, ROLES)
    assert caught.value.message == message
    assert caught.value.hint == hint


def test_unknown_types_are_not_checked() -> None:
    anything = col("a.b")[0].upper() + (col("x") * 2).cast("string")
    assert type_of(anything, {}).name == "STRING"
    assert type_of(col("x") * 2, {"value": ANY}) == ANY
