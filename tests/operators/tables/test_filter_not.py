"""Table.filter_not: the rows for which the predicate is false."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App


def test_a_row_passes_while_the_predicate_is_false_and_is_deleted_when_it_becomes_true() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    driver = run(app, ("a", 1, 0), ("a", 2, 1), ("a", 0, 2))
    assert rows(driver) == [("a", 1, 0), ("a", None, 1), ("a", 0, 2)]


def test_of_a_materialized_table_a_row_that_never_passed_emits_nothing() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 2, 0), ("a", 3, 1), ("a", None, 2))) == []


def test_of_a_table_that_is_not_materialized_each_row_emits_a_deletion() -> None:
    app = App("test")
    app.table("in", value=int).filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 2, 0), ("a", None, 1))) == [("a", None, 0), ("a", None, 1)]


def test_the_predicate_is_not_called_for_a_null_value() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", None, 1))) == [("a", 1, 0), ("a", None, 1)]


def test_an_out_of_order_update_is_applied_like_any_other() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 0, 4))) == [("a", 1, 9), ("a", None, 4), ("a", 0, 4)]


def test_the_result_can_be_stored() -> None:
    app = App("test")
    app.table("in", value=int).filter_not(lambda key, n: key == "b", store="others")
    assert list(run(app, ("a", 1, 0), ("b", 2, 1)).store("others").all()) == [("a", 1)]


def test_a_predicate_of_no_argument_is_refused() -> None:
    refused(lambda: App("test").table("in").filter_not(lambda: True), "filter_not", "0 arguments")
