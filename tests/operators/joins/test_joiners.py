"""Joiners: functions of two or three arguments, and expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, TestDriver, TopologyError, join_window, key, left, right
from millstream.errors import ProcessingError

JOINS: dict[str, Callable[[App, Any], Any]] = {
    "stream-stream": lambda app, joiner: app.stream("left").join(app.stream("right"), joiner, join_window(10)),
    "stream-table": lambda app, joiner: app.stream("left").join(app.table("right"), joiner),
    "stream-global": lambda app, joiner: app.stream("left").join(app.global_table("right"), joiner),
    "table-table": lambda app, joiner: app.table("left").join(app.table("right"), joiner).to_stream(),
    "foreign-key": lambda app, joiner: (
        app.table("left").join(app.table("right"), joiner, on=lambda key, value: key).to_stream()
    ),
}
every_join = pytest.mark.parametrize("join", JOINS)


def result(join: str, joiner: Any) -> Any:
    app = App("joins")
    JOINS[join](app, joiner).to("out")
    with TestDriver(app) as driver:
        driver.input("right").pipe("k", {"price": 5})
        driver.input("left").pipe("k", {"amount": 3})
        return driver.output("out").read().value


@every_join
def test_a_joiner_of_two_arguments_gets_left_and_right(join: str) -> None:
    assert result(join, lambda a, b: [a["amount"], b["price"]]) == [3, 5]


@every_join
def test_a_joiner_of_three_arguments_gets_the_key_first(join: str) -> None:
    assert result(join, lambda k, a, b: [k, a["amount"], b["price"]]) == ["k", 3, 5]


@every_join
def test_an_expression_reads_fields_of_both_sides(join: str) -> None:
    assert result(join, left("amount") * right("price")) == 15


@every_join
def test_an_expression_may_read_the_key_too(join: str) -> None:
    assert result(join, key() + "!") == "k!"


@every_join
@pytest.mark.parametrize("joiner", [lambda: 1, lambda a: a, lambda a, b, c, d: a])
def test_a_function_of_another_arity_is_refused_when_the_join_is_made(join: str, joiner: Any) -> None:
    with pytest.raises(TopologyError, match=r"joiner: .* takes"):
        JOINS[join](App("joins"), joiner)


@every_join
def test_an_object_that_is_neither_function_nor_expression_is_refused(join: str) -> None:
    with pytest.raises(TopologyError, match=r"joiner: expected a function or an expression, got 'amount'"):
        JOINS[join](App("joins"), "amount")


@every_join
def test_an_error_in_a_joiner_names_the_operator_and_the_function(join: str) -> None:
    with pytest.raises(ProcessingError, match=r"processing failed .* test_joiners.py:\d+ in <lambda>\): ZeroDivision"):
        result(join, lambda a, b: 1 / 0)


@every_join
def test_records_on_which_a_joiner_fails_can_be_skipped(join: str) -> None:
    app = App("joins", processing_exception_handler="continue")
    JOINS[join](app, lambda a, b: 10 // b["price"]).to("out")
    with TestDriver(app) as driver:
        for price in (0, 5):
            driver.input("right").pipe("k", {"price": price}, timestamp=price * 100)
            driver.input("left").pipe("k", {"amount": 3}, timestamp=price * 100)
        assert set(driver.output("out").read_values()) == {2}
        assert {reason for _, reason in driver.dropped} == {"processing error"}
