"""Stream.flat_map_values: replaces each record by zero or more records with the same key."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, value


def test_every_value_is_a_record_in_the_order_returned() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(lambda text: text.split(), value=str).to("out")
    assert rows(run(app, ("a", "y x y", 5))) == [("a", "y", 5), ("a", "x", 5), ("a", "y", 5)]


def test_the_function_may_take_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(lambda key, word: [key, word], value=str).to("out")
    assert rows(run(app, ("a", "x", 5))) == [("a", "a", 5), ("a", "x", 5)]


def test_no_value_is_no_record_and_not_a_drop() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(str.split, value=str).to("out")
    driver = run(app, ("a", "  ", 5))
    assert (rows(driver), driver.dropped) == ([], {})


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(lambda key, word: [key, word], value=str).to("out")
    driver = run(app, (None, "x", 0), ("a", None, 1))
    assert rows(driver) == [(None, None, 0), (None, "x", 0), ("a", "a", 1), ("a", None, 1)]


def test_each_record_has_the_timestamp_of_its_input_record() -> None:
    app = App("test")
    app.stream("in", value=int).flat_map_values(lambda n: [n, n + 1], value=int).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 5, 4))) == [("a", 1, 9), ("a", 2, 9), ("a", 5, 4), ("a", 6, 4)]


def test_no_repartition_follows() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(str.split, value=str).group_by_key().count().to_stream().to("out")
    driver = run(app, ("a", "x y", 0))
    assert rows(driver) == [("a", 1, 0), ("a", 2, 0)]
    assert driver.produced_topics == {"out"}


def test_an_expression_returns_the_elements_of_an_array() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map_values(value().split(","), value=str).to("out")
    assert rows(run(app, ("a", "x,y", 0))) == [("a", "x", 0), ("a", "y", 0)]


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").flat_map_values(lambda a, b, c: []), "flat_map_values", "3 arguments")
