"""Table.filter_not: the rows for which the predicate does not hold."""

# What is tested here includes what the types forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App


def test_a_row_that_does_not_fit_passes_and_one_that_does_is_deleted() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    driver = run(app, ("a", 1, 0), ("a", 2, 1), ("a", 0, 2))
    assert rows(driver) == [("a", 1, 0), ("a", None, 1), ("a", 0, 2)]


def test_of_a_table_that_is_kept_a_row_that_was_never_there_gives_nothing() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 2, 0), ("a", 3, 1), ("a", None, 2))) == []


def test_of_a_table_that_is_not_kept_each_gives_a_deletion() -> None:
    app = App("test")
    app.table("in", value=int).filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 2, 0), ("a", None, 1))) == [("a", None, 0), ("a", None, 1)]


def test_the_predicate_is_not_called_for_a_null_value() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 0), ("a", None, 1))) == [("a", 1, 0), ("a", None, 1)]


def test_an_update_that_is_out_of_order_counts_like_any_other() -> None:
    app = App("test")
    app.table("in", value=int, store="rows").filter_not(lambda n: n > 1).to_stream().to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 0, 4))) == [("a", 1, 9), ("a", None, 4), ("a", 0, 4)]


def test_the_result_can_be_kept_in_a_store() -> None:
    app = App("test")
    app.table("in", value=int).filter_not(lambda key, n: key == "b", store="others")
    assert list(run(app, ("a", 1, 0), ("b", 2, 1)).store("others").all()) == [("a", 1)]


def test_a_predicate_of_no_argument_is_refused() -> None:
    refused(lambda: App("test").table("in").filter_not(lambda: True), "filter_not", "0 arguments")
