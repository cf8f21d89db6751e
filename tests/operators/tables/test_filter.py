"""Table.filter: the rows for which the predicate is true; a row for which it becomes false is deleted."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, Materialized, col


def test_a_row_passes_while_the_predicate_is_true_and_is_deleted_when_it_becomes_false() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter(lambda n: n > 1).to_stream().to("out")
    driver = run(app, ("a", 2, 0), ("a", 1, 1), ("a", 3, 2))
    assert rows(driver) == [("a", 2, 0), ("a", None, 1), ("a", 3, 2)]


def test_of_a_materialized_table_a_row_that_never_passed_emits_nothing() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", 0, 1), ("a", None, 2))) == []


def test_of_a_table_that_is_not_materialized_a_row_that_does_not_pass_emits_a_deletion_each_time() -> None:
    app = App("test")
    app.table("in", value=int).filter(lambda n: n > 1).to_stream().to("out")
    driver = run(app, ("a", 1, 0), ("a", 0, 1), ("a", None, 2))
    assert rows(driver) == [("a", None, 0), ("a", None, 1), ("a", None, 2)]


def test_an_aggregate_is_always_materialized() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().count().filter(lambda n: n == 2).to_stream().to("out")
    assert rows(run(app, ("a", 0, 0), ("a", 0, 1), ("a", 0, 2), ("a", 0, 3))) == [("a", 2, 1), ("a", None, 2)]


def test_a_store_of_the_filter_itself_does_not_change_the_output() -> None:
    app = App("test")
    app.table("in", value=int).filter(lambda n: n > 1, store="large").to_stream().to("out")
    driver = run(app, ("a", 1, 0), ("b", 2, 1))
    assert rows(driver) == [("a", None, 0), ("b", 2, 1)]
    assert list(driver.store("large").all()) == [("b", 2)]


def test_a_downstream_grouping_materializes_the_table() -> None:
    app = App("test")
    large = app.table("in", value=int).filter(lambda n: n > 1)
    large.group_by(lambda key, n: ("all", key), value=str).count().to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", 2, 1), ("a", 1, 2))) == [("all", 1, 1), ("all", 0, 2)]


def test_the_predicate_is_not_called_for_a_null_value() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 2, 0), ("a", None, 1))) == [("a", 2, 0), ("a", None, 1)]


def test_null_keys_are_dropped_by_the_table() -> None:
    app = App("test")
    app.table("in", value=int, name="rows").filter(lambda n: n > 1).to_stream().to("out")
    driver = run(app, (None, 2, 0))
    assert rows(driver) == []
    assert driver.dropped == {("rows", "null key"): 1}


def test_the_predicate_may_take_the_key() -> None:
    app = App("test")
    app.table("in", value=str, store="rows").filter(lambda key, word: key == word).to_stream().to("out")
    assert rows(run(app, ("a", "b", 0), ("b", "b", 1))) == [("b", "b", 1)]


def test_an_out_of_order_update_is_applied_like_any_other() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter(lambda n: n > 1, store="large").to_stream().to("out")
    driver = run(app, ("a", 2, 9), ("a", 1, 4), ("a", 3, 4))
    assert rows(driver) == [("a", 2, 9), ("a", None, 4), ("a", 3, 4)]
    assert driver.store("large", timestamped=True).get("a") == (3, 4)


def test_of_a_versioned_table_a_row_that_never_passed_emits_a_deletion() -> None:
    app = App("test")
    app.table("in", value=int, store=Materialized("rows", history=100)).filter(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0))) == [("a", None, 0)]


def test_an_expression_that_is_null_is_false() -> None:
    app = App("test")
    app.table("in", store="rows").filter(col("n") > 1).to_stream().to("out")
    assert rows(run(app, ("a", {"n": 2}, 0), ("a", {}, 1))) == [("a", {"n": 2}, 0), ("a", None, 1)]


def test_a_predicate_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").table("in").filter(lambda a, b, c: True), "filter", "3 arguments")
