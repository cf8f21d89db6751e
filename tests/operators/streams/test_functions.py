"""Functions by arity: of the value, or of key and value; any callable is accepted."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, call-overload, misc"

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App


class Scale:
    """A callable object with methods."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, n: int) -> int:
        return n * self.factor

    def with_key(self, key: str, n: int) -> str:
        return f"{key}{n * self.factor}"

    def __call__(self, n: int) -> int:
        return n + self.factor

    @staticmethod
    def fixed(n: int) -> int:
        return n

    @classmethod
    def made(cls, n: int) -> int:
        return cls(n).factor


def add(a: int, b: int) -> int:
    return a + b


def joined(a: str, key: str, n: int) -> str:
    return f"{a}{key}{n}"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda n: n + 1, 3, id="a lambda of the value"),
        pytest.param(lambda key, n: f"{key}{n}", "a2", id="a lambda of key and value"),
        pytest.param(Scale(10).times, 20, id="a bound method of the value"),
        pytest.param(Scale(10).with_key, "a20", id="a bound method of key and value"),
        pytest.param(Scale(10), 12, id="an object that can be called"),
        pytest.param(Scale.fixed, 2, id="a static method"),
        pytest.param(Scale.made, 2, id="a class method"),
        pytest.param(functools.partial(add, 5), 7, id="a partial that leaves the value"),
        pytest.param(functools.partial(joined, "<"), "<a2", id="a partial that leaves key and value"),
        pytest.param(functools.partial(add, b=5), 7, id="a partial by keyword"),
        pytest.param(lambda n, more=3: n + more, 5, id="a default value is left alone"),
        pytest.param(lambda *args: len(args), 1, id="any number of arguments means the value"),
        pytest.param(str, "2", id="the type str"),
        pytest.param(float, 2.0, id="the type float"),
        pytest.param(abs, 2, id="abs"),
        pytest.param("{}!".format, "2!", id="a method of a built-in type"),
        pytest.param({2: "two"}.get, "two", id="the get of a dict"),
        pytest.param(operator.neg, -2, id="operator.neg"),
    ],
)
def test_any_callable_maps_a_number(function: Callable[..., Any], expected: object) -> None:
    app = App("test")
    app.stream("in", value=int).map_values(function).to("out", value=object)
    assert rows(run(app, ("a", 2, 0))) == [("a", expected, 0)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(str.upper, "AB C", id="str.upper"),
        pytest.param(str.split, ["Ab", "c"], id="str.split"),
        pytest.param(len, 4, id="len"),
        pytest.param(operator.itemgetter(0), "A", id="operator.itemgetter"),
        pytest.param(operator.methodcaller("replace", "A", "x"), "xb c", id="operator.methodcaller"),
    ],
)
def test_any_callable_maps_a_text(function: Callable[..., Any], expected: object) -> None:
    app = App("test")
    app.stream("in", value=str).map_values(function).to("out", value=object)
    assert rows(run(app, ("a", "Ab c", 0))) == [("a", expected, 0)]


def test_any_callable_is_a_reducer_of_aggregate_and_value() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().reduce(max).to_stream().to("max")
    app.stream("in", value=int).group_by_key().reduce(operator.sub).to_stream().to("sub")
    driver = run(app, ("a", 2, 0), ("a", 5, 1), ("a", 3, 2))
    assert rows(driver, "max") == [("a", 2, 0), ("a", 5, 1), ("a", 5, 2)]
    assert rows(driver, "sub") == [("a", 2, 0), ("a", -3, 1), ("a", -6, 2)]


def test_aggregators_take_value_and_aggregate_or_also_the_key() -> None:
    app = App("test")
    grouped = app.stream("in", value=str).group_by_key()
    grouped.aggregate(str, lambda value, agg: agg + value, value=str).to_stream().to("two")
    grouped.aggregate(str, lambda key, value, agg: agg + key + value, value=str).to_stream().to("three")
    driver = run(app, ("a", "x", 0), ("a", "y", 1))
    assert rows(driver, "two") == [("a", "x", 0), ("a", "xy", 1)]
    assert rows(driver, "three") == [("a", "ax", 0), ("a", "axay", 1)]


@pytest.mark.parametrize("call", ["map_values", "filter", "select_key", "flat_map_values", "peek", "group_by"])
def test_a_wrong_number_of_arguments_is_refused_with_the_accepted_forms(call: str) -> None:
    stream = App("test").stream("in")
    refused(lambda: getattr(stream, call)(lambda a, b, c: a), "(value) or (key, value)", "test_functions.py")


def test_a_reducer_of_three_arguments_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.reduce(lambda a, b, c: a), "reducer", "(agg, value)")


def test_an_aggregator_of_one_argument_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.aggregate(int, lambda agg: agg), "aggregator", "(value, agg) or (key, value, agg)")


def test_an_initializer_that_takes_arguments_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.aggregate(lambda key: 0, lambda value, agg: agg), "initializer", "1 argument")


def test_an_initial_value_in_place_of_an_initializer_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.aggregate(0, lambda value, agg: agg), "initializer", "expected a function")


def test_a_function_that_needs_a_keyword_is_refused() -> None:
    def scaled(n: int, *, factor: int) -> int:
        return n * factor

    refused(lambda: App("test").stream("in").map_values(scaled), "factor")
