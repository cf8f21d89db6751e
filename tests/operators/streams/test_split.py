"""Stream.split: routes each record to the first branch whose predicate is true."""

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError, value


def test_a_record_goes_to_the_first_branch_whose_predicate_is_true() -> None:
    app = App("test")
    parts = app.stream("in", value=int).split({"large": lambda n: n > 10, "positive": lambda n: n > 0})
    parts["large"].to("large")
    parts["positive"].to("positive")
    driver = run(app, ("a", 11, 0), ("a", 5, 1))
    assert rows(driver, "large") == [("a", 11, 0)]
    assert rows(driver, "positive") == [("a", 5, 1)]


def test_the_other_records_go_to_the_default_branch() -> None:
    app = App("test")
    parts = app.stream("in", value=int).split({"large": lambda n: n > 10}, default="rest")
    parts["rest"].to("out")
    driver = run(app, ("a", 11, 0), ("a", 5, 1))
    assert rows(driver) == [("a", 5, 1)]
    assert driver.dropped == {}


def test_without_a_default_branch_the_other_records_are_dropped_and_counted() -> None:
    app = App("test")
    parts = app.stream("in", value=int).split({"large": lambda n: n > 10}, name="size")
    parts["large"].to("out")
    driver = run(app, ("a", 11, 0), ("a", 5, 1), ("a", 6, 2))
    assert rows(driver) == [("a", 11, 0)]
    assert driver.dropped == {("size", "no branch"): 2}


def test_an_unused_branch_still_consumes_its_records() -> None:
    app = App("test")
    parts = app.stream("in", value=int).split({"large": lambda n: n > 10, "any": lambda n: True})
    parts["any"].to("out")
    driver = run(app, ("a", 11, 0), ("a", 5, 1))
    assert rows(driver) == [("a", 5, 1)]
    assert driver.dropped == {}


def test_the_streams_are_returned_by_name_the_default_one_last() -> None:
    parts = App("test").stream("in").split({"b": lambda v: True, "a": lambda v: True}, default="c")
    assert list(parts) == ["b", "a", "c"]


def test_null_keys_and_null_values_are_passed_to_the_predicates() -> None:
    app = App("test")
    parts = app.stream("in", value=str).split(
        {"no-key": lambda key, word: key is None, "no-value": lambda word: word is None}, default="rest"
    )
    for name, stream in parts.items():
        stream.to(name)
    driver = run(app, (None, "x", 0), ("a", None, 1), (None, None, 2), ("a", "x", 3))
    assert rows(driver, "no-key") == [(None, "x", 0), (None, None, 2)]
    assert rows(driver, "no-value") == [("a", None, 1)]
    assert rows(driver, "rest") == [("a", "x", 3)]


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).split({"all": lambda n: True})["all"].to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))) == [("a", 1, 9), ("a", 2, 4), ("a", 3, 4)]


def test_a_predicate_that_is_not_reached_is_not_called() -> None:
    app = App("test")
    app.stream("in", value=int).split({"zero": lambda n: n == 0, "inverse": lambda n: 1 / n > 0})["zero"].to("out")
    assert rows(run(app, ("a", 0, 0))) == [("a", 0, 0)]


def test_expressions_may_be_predicates_and_null_is_false() -> None:
    app = App("test")
    parts = app.stream("in", value=str).split({"errors": value().starts_with("E")}, default="rest")
    parts["errors"].to("errors")
    parts["rest"].to("rest")
    driver = run(app, ("a", "E1", 0), ("a", "I1", 1), ("a", None, 2))
    assert rows(driver, "errors") == [("a", "E1", 0)]
    assert rows(driver, "rest") == [("a", "I1", 1), ("a", None, 2)]


def test_a_branch_that_was_grouped_is_not_repartitioned() -> None:
    app = App("test")
    app.stream("in", value=int).split({"all": lambda n: True})["all"].group_by_key().count().to_stream().to("out")
    assert run(app, ("a", 1, 0)).produced_topics == {"out"}


def test_a_predicate_that_raises_is_named_in_the_error() -> None:
    app = App("test")
    app.stream("in", value=int).split({"inverse": lambda n: 1 / n})["inverse"].to("out")
    with pytest.raises(MillstreamError, match=r"test_split\.py:\d+ in <lambda>"):
        run(app, ("a", 0, 0))


def test_a_default_branch_with_the_name_of_another_is_refused() -> None:
    refused(lambda: App("test").stream("in").split({"a": lambda v: True}, default="a"), "split", "'a'", hint=False)


def test_a_predicate_of_three_arguments_is_refused_and_its_branch_named() -> None:
    refused(lambda: App("test").stream("in").split({"odd": lambda a, b, c: a}), "branch 'odd'", "3 arguments")
