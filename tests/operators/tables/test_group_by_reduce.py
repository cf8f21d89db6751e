"""Table.group_by(…).reduce: the old value of a row is subtracted from its group, then the new one added."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, return-value"

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, run

from millstream import App


def totals() -> App:
    """Returns the totals of rows ``shop:amount``; '?' is no shop, and no amount is null."""

    def shop_and_amount(text: str) -> tuple[Any, Any]:
        shop, amount = text.split(":")
        return None if shop == "?" else shop, int(amount) if amount else None

    app = App("test")
    app.table("in", value=str).group_by(shop_and_amount, value=int).reduce(
        lambda total, amount: total + amount, lambda total, amount: total - amount, store="totals"
    ).to_stream().to("out")
    return app


def test_the_first_value_of_a_group_is_its_first_aggregate_and_others_are_added() -> None:
    assert rows(run(totals(), ("a", "s:3", 1), ("b", "s:4", 2))) == [("s", 3, 1), ("s", 7, 2)]


def test_a_change_within_a_group_subtracts_then_adds_in_one_update() -> None:
    driver = run(totals(), ("a", "s:3", 1), ("b", "s:4", 2), ("a", "s:5", 3))
    assert rows(driver)[2:] == [("s", 9, 3)]


def test_a_change_of_group_emits_two_updates_the_old_group_first() -> None:
    driver = run(totals(), ("a", "s:3", 1), ("b", "s:4", 2), ("a", "t:5", 3))
    assert rows(driver)[2:] == [("s", 4, 3), ("t", 5, 3)]


def test_a_deleted_row_is_subtracted() -> None:
    assert rows(run(totals(), ("a", "s:3", 1), ("a", None, 2))) == [("s", 3, 1), ("s", 0, 2)]


def test_a_null_group_or_value_is_ignored_on_its_side() -> None:
    driver = run(totals(), ("a", "?:3", 1), ("a", "s:4", 2), ("a", "s:", 3), ("a", "t:1", 4))
    assert rows(driver) == [("s", 4, 2), ("s", 0, 3), ("t", 1, 4)]


def test_the_timestamp_is_the_greatest_of_the_group() -> None:
    assert rows(run(totals(), ("a", "s:3", 9), ("b", "s:4", 4), ("b", None, 9))) == [
        ("s", 3, 9),
        ("s", 7, 9),
        ("s", 3, 9),
    ]


def test_the_old_value_is_subtracted_before_the_new_one_is_added() -> None:
    app = App("test")
    app.table("in", value=str).group_by(lambda word: ("all", word), value=str).reduce(
        lambda agg, word: f"{agg}+{word}", lambda agg, word: f"{agg}-{word}"
    ).to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", "y", 2))) == [("all", "x", 1), ("all", "x-x+y", 2)]


def test_a_subtractor_that_returns_none_deletes_the_group_which_then_starts_over() -> None:
    app = App("test")
    app.table("in", value=int).group_by(lambda n: ("all", n), value=int).reduce(
        lambda total, n: total + n, lambda total, n: total - n or None, store="total"
    ).to_stream().to("out")
    driver = run(app, ("a", 3, 1), ("a", None, 2), ("b", 5, 3))
    assert rows(driver) == [("all", 3, 1), ("all", None, 2), ("all", 5, 3)]


def test_an_adder_of_one_argument_is_refused() -> None:
    grouped = App("test").table("in").group_by(lambda v: ("all", v))
    refused(lambda: grouped.reduce(lambda agg: agg, lambda agg, v: agg), "adder", "(agg, value)")


def test_a_subtractor_of_three_arguments_is_refused() -> None:
    grouped = App("test").table("in").group_by(lambda v: ("all", v))
    refused(lambda: grouped.reduce(lambda agg, v: agg, lambda a, b, c: a), "subtractor", "3 arguments")
