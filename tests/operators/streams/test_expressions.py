"""Expressions in place of functions: col, value, key, lit, when, struct, array."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, array, col, functions, key, lit, struct, value, when
from millstream.errors import ExpressionError


@dataclass
class Order:
    """A value with declared fields."""

    shop: str
    amount: int


def test_col_reads_a_field_of_a_dict() -> None:
    app = App("test")
    app.stream("in").map_values(col("amount") * 2).to("out")
    assert rows(run(app, ("a", {"amount": 3}, 0))) == [("a", 6, 0)]


def test_col_reads_a_field_of_a_dataclass() -> None:
    app = App("test")
    app.stream("in", value=Order).map_values(col("amount") + 1).to("out")
    assert rows(run(app, ("a", Order("s", 3), 0))) == [("a", 4, 0)]


def test_a_dot_reads_a_field_of_a_field() -> None:
    app = App("test")
    app.stream("in").map_values(col("customer.name")).to("out")
    assert rows(run(app, ("a", {"customer": {"name": "Ann"}}, 0))) == [("a", "Ann", 0)]


def test_a_missing_field_is_null() -> None:
    app = App("test")
    app.stream("in").map_values(col("amount") * 2).to("out")
    assert rows(run(app, ("a", {}, 0), ("a", None, 1))) == [("a", None, 0), ("a", None, 1)]


def test_value_is_the_value_itself() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(value().upper()).to("out")
    assert rows(run(app, ("a", "x", 0), ("a", None, 1))) == [("a", "X", 0), ("a", None, 1)]


def test_key_is_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(key() + value()).to("out")
    assert rows(run(app, ("a", "x", 0), (None, "x", 1))) == [("a", "ax", 0), (None, None, 1)]


def test_when_chooses() -> None:
    app = App("test")
    size = when(value() > 10, "large").when(value() > 5, "medium").otherwise("small")
    app.stream("in", value=int).map_values(size).to("out")
    driver = run(app, ("a", 11, 0), ("a", 7, 1), ("a", 1, 2), ("a", None, 3))
    assert [v for _, v, _ in rows(driver)] == ["large", "medium", "small", "small"]


def test_when_without_otherwise_is_null() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(when(value() > 10, "large")).to("out")
    assert rows(run(app, ("a", 1, 0))) == [("a", None, 0)]


def test_struct_and_array_return_dicts_and_lists() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(struct(id=key(), pair=array(value(), lit(0)))).to("out")
    assert rows(run(app, ("a", 1, 0))) == [("a", {"id": "a", "pair": [1, 0]}, 0)]


def test_functions_by_name() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(functions.abs(value())).to("out")
    assert rows(run(app, ("a", -3, 0))) == [("a", 3, 0)]


def test_conditions_are_combined_with_and_or_not() -> None:
    app = App("test")
    app.stream("in", value=int).filter((value() > 1) & ~(value() == 3) | value().is_null()).to("out")
    driver = run(app, ("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("a", None, 3))
    assert rows(driver) == [("a", 2, 1), ("a", None, 3)]


def test_the_type_of_the_expression_determines_the_serde() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(functions.length(value())).to("out")
    assert run(app, ("a", "xyz", 0)).output("out", value=bytes).read().value == b"\0\0\0\0\0\0\0\3"


def test_group_by_an_expression() -> None:
    app = App("test")
    app.stream("in").group_by(col("shop")).count().to_stream().to("out")
    driver = run(app, ("a", {"shop": "n"}, 0), ("b", {"shop": "n"}, 1), ("c", {}, 2))
    assert rows(driver) == [("n", 1, 0), ("n", 2, 1)]
    assert sum(driver.dropped.values()) == 1


def test_an_expression_over_a_table() -> None:
    app = App("test")
    app.table("in").filter(col("n") > 1).map_values(col("n") * 2).to_stream().to("out")
    driver = run(app, ("a", {"n": 2}, 0), ("a", None, 1))
    assert rows(driver) == [("a", 4, 0), ("a", None, 1)]


def test_an_unknown_field_is_refused() -> None:
    stream = App("test").stream("in", value=Order)
    error = refused(lambda: stream.filter(col("amuont") > 1), "amuont", "amount")
    assert isinstance(error, ExpressionError)


def test_mismatched_types_are_refused() -> None:
    stream = App("test").stream("in", value=Order)
    refused(lambda: stream.map_values(col("shop") * 2), "*", hint=False)


def test_an_expression_in_an_if_is_refused() -> None:
    with pytest.raises(ExpressionError, match="no truth value"):
        bool(col("a") == 1)
