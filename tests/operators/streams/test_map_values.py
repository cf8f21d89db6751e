"""Stream.map_values: sets a new value for each record; the key is unchanged."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, value


def test_the_value_is_new_and_the_key_is_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(lambda n: n + 1, value=int).to("out")
    assert rows(run(app, ("a", 1, 5))) == [("a", 2, 5)]


def test_the_function_may_take_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(lambda key, word: f"{key}:{word}", value=str).to("out")
    assert rows(run(app, ("a", "x", 5))) == [("a", "a:x", 5)]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(lambda key, word: f"{key}:{word}", value=str).to("out")
    assert rows(run(app, (None, "x", 0), ("a", None, 1))) == [(None, "None:x", 0), ("a", "a:None", 1)]


def test_the_new_value_may_be_null() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(lambda word: None, value=str).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("a", None, 0)]


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(lambda n: -n, value=int).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))) == [("a", -1, 9), ("a", -2, 4), ("a", -3, 4)]


def test_no_repartition_follows() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(lambda n: -n, value=int).group_by_key().count().to_stream().to("out")
    assert run(app, ("a", 1, 0)).produced_topics == {"out"}


def test_the_annotation_of_the_function_determines_the_serde() -> None:
    def size(word: str) -> int:
        return len(word)

    app = App("test")
    app.stream("in", value=str).map_values(size).to("out")
    driver = run(app, ("a", "xyz", 0))
    assert rows(driver) == [("a", 3, 0)]
    assert driver.output("out", value=bytes).read().value == b"\0\0\0\0\0\0\0\3"


def test_without_annotation_or_declaration_the_value_is_json() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(lambda word: [word, 1]).to("out")
    driver = run(app, ("a", "x", 0))
    assert rows(driver) == [("a", ["x", 1], 0)]


def test_an_expression_of_a_null_value_is_null() -> None:
    app = App("test")
    app.stream("in", value=int).map_values(value() * 2).to("out")
    assert rows(run(app, ("a", 2, 0), ("a", None, 1))) == [("a", 4, 0), ("a", None, 1)]


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").map_values(lambda a, b, c: a), "map_values", "3 arguments")
