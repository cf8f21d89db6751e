"""Table.transform_values: sets a new value for each row, by a function that is also called for deletions."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App


def shout(word: str | None) -> str:
    return "gone" if word is None else word.upper()


def test_the_function_is_called_for_deletions_with_none() -> None:
    app = App("test")
    app.table("in", value=str).transform_values(shout).to_stream().to("out")
    assert rows(run(app, ("a", "x", 0), ("a", None, 1), ("b", None, 2))) == [
        ("a", "X", 0),
        ("a", "gone", 1),
        ("b", "gone", 2),
    ]


def test_the_result_for_a_deletion_is_stored() -> None:
    app = App("test")
    app.table("in", value=str).transform_values(shout, store="words")
    assert list(run(app, ("a", "x", 0), ("a", None, 1)).store("words").all()) == [("a", "gone")]


def test_a_function_that_returns_none_deletes_the_row() -> None:
    app = App("test")
    app.table("in", value=str).transform_values(lambda word: None, value=str, store="words").to_stream().to("out")
    driver = run(app, ("a", "x", 0))
    assert rows(driver) == [("a", None, 0)]
    assert list(driver.store("words").all()) == []


def test_the_function_may_take_the_key() -> None:
    app = App("test")
    app.table("in", value=str).transform_values(lambda key, word: f"{key}{word}", value=str).to_stream().to("out")
    assert rows(run(app, ("a", None, 0))) == [("a", "aNone", 0)]


def test_null_keys_are_dropped_by_the_table() -> None:
    app = App("test")
    app.table("in", value=str, name="rows").transform_values(shout).to_stream().to("out")
    driver = run(app, (None, "x", 0))
    assert (rows(driver), driver.dropped) == ([], {("rows", "null key"): 1})


def test_an_out_of_order_update_is_applied_like_any_other() -> None:
    app = App("test")
    app.table("in", value=str).transform_values(shout).to_stream().to("out")
    assert rows(run(app, ("a", "x", 9), ("a", "y", 4), ("a", "z", 4))) == [("a", "X", 9), ("a", "Y", 4), ("a", "Z", 4)]


def test_a_row_that_is_absent_upstream_is_absent_in_lookups() -> None:
    app = App("test")
    right = app.table("right", value=str).transform_values(shout)
    app.table("in", value=str).join(right, lambda a, b: a + b, value=str).to_stream().to("out")
    assert rows(run(app, ("a", "x", 0))) == []


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").table("in").transform_values(lambda a, b, c: a), "transform_values", "3 arguments")
