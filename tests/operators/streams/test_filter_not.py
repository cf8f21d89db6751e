"""Stream.filter_not: passes on the records for which the predicate is false."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, col


def test_only_records_that_do_not_satisfy_the_predicate_pass() -> None:
    app = App("test")
    app.stream("in", value=int).filter_not(lambda n: n > 1).to("out")
    assert rows(run(app, ("a", 1, 0), ("a", 2, 1), ("b", 0, 2))) == [("a", 1, 0), ("b", 0, 2)]


def test_the_predicate_may_take_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).filter_not(lambda key, word: key == word).to("out")
    assert rows(run(app, ("a", "a", 0), ("a", "b", 1))) == [("a", "b", 1)]


def test_null_keys_and_null_values_are_passed_to_the_predicate() -> None:
    app = App("test")
    app.stream("in", value=str).filter_not(lambda key, word: key is None or word is None).to("out")
    assert rows(run(app, (None, "x", 0), ("a", None, 1), ("a", "x", 2))) == [("a", "x", 2)]


def test_none_and_other_empty_results_are_false() -> None:
    app = App("test")
    app.stream("in", value=str).filter_not(lambda word: word).to("out")
    assert rows(run(app, ("a", "", 0), ("a", "x", 1), ("a", None, 2))) == [("a", "", 0), ("a", None, 2)]


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).filter_not(lambda n: n < 0).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))) == [("a", 1, 9), ("a", 2, 4), ("a", 3, 4)]


def test_an_expression_that_is_null_is_false_so_the_record_passes() -> None:
    app = App("test")
    app.stream("in").filter_not(col("n") > 1).to("out")
    assert rows(run(app, ("a", {"n": None}, 0), ("a", {"n": 2}, 1))) == [("a", {"n": None}, 0)]


def test_every_record_passes_either_filter_or_filter_not() -> None:
    app = App("test")
    numbers = app.stream("in", value=int)
    numbers.filter(lambda n: n % 2).to("odd")
    numbers.filter_not(lambda n: n % 2).to("even")
    driver = run(app, ("a", 1, 0), ("a", 2, 1), ("a", 3, 2))
    assert rows(driver, "odd") == [("a", 1, 0), ("a", 3, 2)]
    assert rows(driver, "even") == [("a", 2, 1)]


def test_a_predicate_of_no_argument_is_refused() -> None:
    refused(lambda: App("test").stream("in").filter_not(lambda: True), "filter_not", "0 arguments")
