"""Table.map_values: sets a new value for each row; the function is not called for deletions."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, Materialized, col


def test_each_row_has_a_new_value() -> None:
    app = App("test")
    app.table("in", value=int).map_values(lambda n: n * 2, value=int).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", 2, 1))) == [("a", 2, 0), ("a", 4, 1)]


def test_the_function_may_take_the_key() -> None:
    app = App("test")
    app.table("in", value=str).map_values(lambda key, word: key + word, value=str).to_stream().to("out")
    assert rows(run(app, ("a", "x", 0))) == [("a", "ax", 0)]


def test_a_deletion_passes_and_the_function_is_not_called() -> None:
    app = App("test")
    app.table("in", value=int).map_values(lambda n: n * 2, value=int).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", None, 1), ("b", None, 2))) == [("a", 2, 0), ("a", None, 1), ("b", None, 2)]


def test_null_keys_are_dropped_by_the_table() -> None:
    app = App("test")
    app.table("in", value=int, name="rows").map_values(lambda n: n, value=int).to_stream().to("out")
    driver = run(app, (None, 1, 0))
    assert (rows(driver), driver.dropped) == ([], {("rows", "null key"): 1})


def test_a_new_value_that_is_null_deletes_the_row() -> None:
    app = App("test")
    table = app.table("in", value=int)
    table.map_values(lambda n: n if n > 1 else None, value=int, store="mapped").to_stream().to("out")
    driver = run(app, ("a", 2, 0), ("a", 1, 1))
    assert rows(driver) == [("a", 2, 0), ("a", None, 1)]
    assert driver.store("mapped").get("a") is None


def test_an_out_of_order_update_is_applied_like_any_other() -> None:
    app = App("test")
    app.table("in", value=int).map_values(lambda n: -n, value=int, store="mapped").to_stream().to("out")
    driver = run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))
    assert rows(driver) == [("a", -1, 9), ("a", -2, 4), ("a", -3, 4)]
    assert driver.store("mapped", timestamped=True).get("a") == (-3, 4)


def test_old_values_are_mapped_for_a_downstream_grouping() -> None:
    app = App("test")
    doubled = app.table("in", value=int).map_values(lambda n: n * 2, value=int)
    doubled.group_by(lambda n: ("all", n), value=int).reduce(
        lambda agg, n: agg + n, lambda agg, n: agg - n
    ).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("b", 5, 1), ("a", 2, 2))) == [("all", 2, 0), ("all", 12, 1), ("all", 14, 2)]


def test_versions_of_a_versioned_table_are_mapped() -> None:
    app = App("test")
    table = app.table("in", value=int, store=Materialized("rows", history=100))
    table.map_values(lambda n: -n, value=int, store=Materialized("mapped", history=100)).to_stream().to("out")
    driver = run(app, ("a", 1, 9), ("a", 2, 4))
    assert rows(driver) == [("a", -1, 9), ("a", -2, 4)]
    assert driver.store("mapped").get("a").value == -1
    assert driver.store("mapped").get("a", as_of=5).value == -2


def test_an_expression() -> None:
    app = App("test")
    app.table("in").map_values(col("n") + 1).to_stream().to("out")
    assert rows(run(app, ("a", {"n": 1}, 0), ("a", None, 1))) == [("a", 2, 0), ("a", None, 1)]


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").table("in").map_values(lambda a, b, c: a), "map_values", "3 arguments")
