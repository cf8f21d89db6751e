"""GroupedStream.reduce: combines the values of each key into one of the same type."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, return-value"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError, agg, value


def joining() -> App:
    app = App("test")
    app.stream("in", value=str).group_by_key().reduce(
        lambda so_far, word: f"{so_far}+{word}", store="words", name="reduce"
    ).to_stream().to("out")
    return app


def test_the_first_value_is_the_first_aggregate_and_others_are_added_in_the_order_of_arrival() -> None:
    driver = run(joining(), ("a", "x", 1), ("b", "q", 2), ("a", "y", 3))
    assert rows(driver) == [("a", "x", 1), ("b", "q", 2), ("a", "x+y", 3)]


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    driver = run(joining(), (None, "x", 1), ("a", None, 2), ("a", "x", 3))
    assert rows(driver) == [("a", "x", 3)]
    assert driver.dropped == {("reduce", "null key"): 1, ("reduce", "null value"): 1}


def test_an_out_of_order_record_is_added_last_and_the_timestamp_stays_the_greatest() -> None:
    driver = run(joining(), ("a", "x", 9), ("a", "y", 4), ("a", "z", 9))
    assert rows(driver) == [("a", "x", 9), ("a", "x+y", 9), ("a", "x+y+z", 9)]


def test_a_reducer_that_returns_none_deletes_the_row_which_then_starts_over() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().reduce(lambda a, n: a + n or None, store="sums").to_stream().to("out")
    driver = run(app, ("a", 3, 1), ("a", -3, 2), ("a", 5, 3))
    assert rows(driver) == [("a", 3, 1), ("a", None, 2), ("a", 5, 3)]


def test_a_grouping_by_a_new_key() -> None:
    app = App("test")
    grouped = app.stream("in", value=int).group_by(lambda n: "odd" if n % 2 else "even", key=str)
    grouped.reduce(max).to_stream().to("out")
    assert rows(run(app, ("a", 3, 1), ("a", 2, 2), ("b", 1, 3))) == [("odd", 3, 1), ("even", 2, 2), ("odd", 3, 3)]


def test_the_sum_can_be_grouped_again_because_the_first_update_has_no_old_value() -> None:
    app = App("test")
    sums = app.stream("in", value=int).group_by_key().reduce(lambda a, n: a + n)
    sums.group_by(lambda n: ("all", n), value=int).reduce(lambda a, n: a + n, lambda a, n: a - n).to_stream().to("out")
    assert rows(run(app, ("a", 1, 1), ("b", 10, 2), ("a", 2, 3))) == [("all", 1, 1), ("all", 11, 2), ("all", 13, 3)]


def test_an_expression() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().reduce(agg() + value()).to_stream().to("out")
    assert rows(run(app, ("a", 1, 1), ("a", 2, 2))) == [("a", 1, 1), ("a", 3, 2)]


def test_a_reducer_that_raises_stops_the_application_and_is_named_in_the_error() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().reduce(lambda a, n: a // n).to_stream().to("out")
    with pytest.raises(MillstreamError, match=r"test_reduce\.py:\d+ in <lambda>"):
        run(app, ("a", 1, 1), ("a", 0, 2))


def test_a_reducer_of_one_argument_is_refused() -> None:
    refused(lambda: App("test").stream("in").group_by_key().reduce(lambda a: a), "reducer", "(agg, value)")
