"""Inner join of two tables: a row for every key that both contain."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import IN_ORDER, OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver


def joined(store: Any = None, *, left: Any = None, right: Any = None) -> App:
    app = App("joins")
    tables = [
        app.table("left", value=str, store=left, name="left-table"),
        app.table("right", value=str, store=right, name="right-table"),
    ]
    tables[0].join(tables[1], dashed, store=store, name="join").to_stream().to("out")
    return app


plain_or_stored = pytest.mark.parametrize("store", [None, "joined"])


@plain_or_stored
def test_every_change_of_either_side_updates_the_row(store: str | None) -> None:
    assert run(joined(store), *IN_ORDER) == {
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        10: "C-c@10",
        11: "null@11",
        15: "D-d@15",
    }


@plain_or_stored
def test_out_of_order_changes_are_applied_in_order_of_arrival(store: str | None) -> None:
    assert run(joined(store), *OUT_OF_ORDER) == {
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        10: "C-c@10",
        11: "null@11",
        15: "D-d@7",
        16: "null@7",
        19: "E-e@15",
        20: "null@14",
        23: "F-f@4",
    }


def test_the_time_of_a_row_is_the_greater_of_both_sides() -> None:
    assert run(joined(), on_left("A", 9), on_right("a", 2), on_left("B", 1)) == {2: "A-a@9", 3: "B-a@2"}


def test_of_two_changes_of_equal_time_the_later_arrival_is_valid() -> None:
    assert run(joined(), on_left("A", 5), on_right("a", 5), on_left("B", 5)) == {2: "A-a@5", 3: "B-a@5"}


def test_deleting_an_absent_row_emits_nothing() -> None:
    assert run(joined(), on_left("A", 0), on_left(None, 1), on_right("a", 2), on_right(None, 3)) == {}


def test_null_keys_are_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("A", 0, key=None), on_right("a", 0, key=None)) == {}
        assert driver.dropped == {("left-table", "null key"): 1, ("right-table", "null key"): 1}


def test_the_store_of_a_join_can_be_queried() -> None:
    with TestDriver(joined("joined")) as driver:
        play(driver, on_left("A", 3), on_right("a", 4), on_left("B", 3, key="x"))
        assert list(driver.store("joined").all()) == [("k", "A-a")]
        assert driver.store("joined", timestamped=True).get("k") == ("A-a", 4)


VERSIONED = Materialized("versioned", history=300_000)


def test_two_versioned_tables_ignore_out_of_order_changes() -> None:
    other = Materialized("other", history=300_000)
    assert run(joined(left=VERSIONED, right=other), *OUT_OF_ORDER) == {
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        10: "C-c@10",
        11: "null@11",
        19: "E-e@15",
    }


def test_if_only_the_left_table_is_versioned_the_right_one_is_applied_in_order_of_arrival() -> None:
    outputs = run(joined(left=VERSIONED), *OUT_OF_ORDER)
    assert {n: text for n, text in outputs.items() if n > 13} == {19: "E-e@15", 21: "null@15", 23: "E-f@15"}


def test_if_only_the_right_table_is_versioned_the_left_one_is_applied_in_order_of_arrival() -> None:
    outputs = run(joined(right=VERSIONED), *OUT_OF_ORDER)
    assert {n: text for n, text in outputs.items() if n > 13} == {19: "E-e@15", 20: "null@14", 22: "F-e@14"}
