"""Stream.filter: passes on the records for which the predicate is true."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, call-overload, misc"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError, col


def test_only_records_that_satisfy_the_predicate_pass() -> None:
    app = App("test")
    app.stream("in", value=int).filter(lambda n: n > 1).to("out")
    assert rows(run(app, ("a", 1, 0), ("a", 2, 1), ("b", 3, 2))) == [("a", 2, 1), ("b", 3, 2)]


def test_the_predicate_may_take_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).filter(lambda key, word: key == word).to("out")
    assert rows(run(app, ("a", "a", 0), ("a", "b", 1))) == [("a", "a", 0)]


def test_null_keys_and_null_values_are_passed_to_the_predicate() -> None:
    app = App("test")
    app.stream("in", value=str).filter(lambda key, word: key is None or word is None).to("out")
    driver = run(app, (None, "x", 0), ("a", None, 1), ("a", "x", 2))
    assert rows(driver) == [(None, "x", 0), ("a", None, 1)]


def test_filtered_records_are_not_counted_as_dropped() -> None:
    app = App("test")
    app.stream("in", value=int).filter(lambda n: n > 1).to("out")
    assert run(app, ("a", 1, 0)).dropped == {}


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).filter(lambda n: n > 0).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))) == [("a", 1, 9), ("a", 2, 4), ("a", 3, 4)]


def test_any_truth_value_is_accepted() -> None:
    app = App("test")
    app.stream("in", value=str).filter(lambda word: word).to("out")
    assert rows(run(app, ("a", "", 0), ("a", "x", 1), ("a", None, 2))) == [("a", "x", 1)]


def test_an_expression_that_is_null_is_false() -> None:
    app = App("test")
    app.stream("in").filter(col("n") > 1).to("out")
    assert rows(run(app, ("a", {"n": None}, 0), ("a", {"n": 2}, 1), ("a", None, 2))) == [("a", {"n": 2}, 1)]


def test_a_predicate_that_raises_stops_the_application_and_is_named_in_the_error() -> None:
    app = App("test")
    app.stream("in", value=int).filter(lambda n: 1 / n).to("out")
    with pytest.raises(MillstreamError, match=r"test_filter\.py:\d+ in <lambda>"):
        run(app, ("a", 0, 0))


def test_a_record_on_which_the_predicate_raises_is_skipped_and_counted_if_so_configured() -> None:
    app = App("test", processing_exception_handler="continue")
    app.stream("in", value=int).filter(lambda n: 1 / n, name="inverse").to("out")
    driver = run(app, ("a", 0, 0), ("a", 1, 1))
    assert rows(driver) == [("a", 1, 1)]
    assert driver.dropped == {("inverse", "processing error"): 1}


def test_a_predicate_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").filter(lambda a, b, c: True), "filter", "3 arguments", "(key, value)")


def test_a_predicate_that_is_not_a_function_is_refused() -> None:
    refused(lambda: App("test").stream("in").filter(True), "filter", "expected a function or an expression")
