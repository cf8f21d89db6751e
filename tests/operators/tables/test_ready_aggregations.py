"""Ready aggregations of a grouped table: sum, avg and collect are updated by every change of a row."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Any

from tests.operators.harness import rows, run

from millstream import App, GroupedTable, col


def grouped(app: App, value: type = int) -> GroupedTable[str, Any]:
    """Returns all rows in one group."""
    return app.table("in", value=value).group_by(lambda v: ("all", v), value=value)


def values(app: App, *records: tuple[object, ...]) -> list[object]:
    return [value for _, value, _ in rows(run(app, *records))]


def test_sum_adds_new_values_and_subtracts_old_ones() -> None:
    app = App("test")
    grouped(app).sum(store="total").to_stream().to("out")
    assert values(app, ("a", 3, 0), ("b", 4, 1), ("a", 5, 2), ("b", None, 3)) == [3, 7, 9, 5]


def test_sum_of_a_group_that_has_become_empty_is_zero() -> None:
    app = App("test")
    grouped(app).sum().to_stream().to("out")
    assert values(app, ("a", 3, 0), ("a", None, 1)) == [3, 0]


def test_sum_of_the_results_of_a_function() -> None:
    app = App("test")
    grouped(app, object).sum(lambda row: row["n"], value=int).to_stream().to("out")
    assert values(app, ("a", {"n": 3}, 0), ("a", {"n": 4}, 1)) == [3, 4]


def test_sum_of_the_results_of_an_expression() -> None:
    app = App("test")
    grouped(app, object).sum(col("n"), value=int).to_stream().to("out")
    assert values(app, ("a", {"n": 3}, 0), ("a", {"n": 4}, 1)) == [3, 4]


def test_avg_is_updated_by_every_change_and_is_none_for_an_empty_group() -> None:
    app = App("test")
    grouped(app).avg().to_stream().to("out")
    records = [("a", 3, 0), ("b", 5, 1), ("a", 7, 2), ("b", None, 3), ("a", None, 4)]
    assert values(app, *records) == [3.0, 4.0, 6.0, 7.0, None]


def test_collect_is_updated_by_every_change() -> None:
    app = App("test")
    grouped(app, str).collect().to_stream().to("out")
    records = [("a", "x", 0), ("b", "y", 1), ("a", "z", 2), ("b", None, 3)]
    assert values(app, *records) == [["x"], ["x", "y"], ["y", "z"], ["z"]]


def test_collect_removes_equal_values_one_at_a_time() -> None:
    app = App("test")
    grouped(app, str).collect().to_stream().to("out")
    assert values(app, ("a", "x", 0), ("b", "x", 1), ("a", None, 2)) == [["x"], ["x", "x"], ["x"]]


def test_a_change_of_group_updates_both() -> None:
    app = App("test")
    table = app.table("in").group_by(lambda row: (row["g"], row["n"]), value=int)
    table.sum(value=int).to_stream().to("out")
    driver = run(app, ("a", {"g": "x", "n": 3}, 0), ("a", {"g": "y", "n": 4}, 1))
    assert rows(driver) == [("x", 3, 0), ("x", 0, 1), ("y", 4, 1)]


def test_out_of_order_rows_are_aggregated_and_the_timestamp_stays_the_greatest() -> None:
    app = App("test")
    grouped(app).sum(value=int).to_stream().to("out")
    assert rows(run(app, ("a", 3, 9), ("b", 4, 4), ("b", 5, 4))) == [("all", 3, 9), ("all", 7, 9), ("all", 8, 9)]
