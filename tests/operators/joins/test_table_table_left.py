"""Left join of two tables: a row for every key of the left one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import IN_ORDER, OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver


def joined(store: Any = None, *, left: Any = None, right: Any = None) -> App:
    app = App("joins")
    tables = app.table("left", value=str, store=left), app.table("right", value=str, store=right)
    tables[0].left_join(tables[1], dashed, store=store).to_stream().to("out")
    return app


plain_or_stored = pytest.mark.parametrize("store", [None, "joined"])


@plain_or_stored
def test_a_left_row_without_partner_is_joined_with_null(store: str | None) -> None:
    assert run(joined(store), *IN_ORDER) == {
        3: "A-null@3",
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        15: "D-d@15",
    }


@plain_or_stored
def test_out_of_order_changes_are_applied_in_order_of_arrival(store: str | None) -> None:
    assert run(joined(store), *OUT_OF_ORDER) == {
        3: "A-null@3",
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        15: "D-d@7",
        16: "null@7",
        19: "E-e@15",
        20: "null@14",
        22: "F-null@4",
        23: "F-f@4",
    }


def test_two_versioned_tables_ignore_out_of_order_changes() -> None:
    left, right = Materialized("l", history=300_000), Materialized("r", history=300_000)
    assert run(joined(left=left, right=right), *OUT_OF_ORDER) == {
        3: "A-null@3",
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null@7",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        19: "E-e@15",
    }


def test_a_right_row_without_partner_emits_nothing() -> None:
    assert run(joined(), on_right("a", 0), on_right(None, 1)) == {}


def test_the_store_of_a_join_can_be_queried() -> None:
    with TestDriver(joined("joined")) as driver:
        play(driver, on_left("A", 3), on_left("B", 4, key="x"), on_right("a", 9), on_right("z", 9, key="z"))
        assert list(driver.store("joined").all()) == [("k", "A-a"), ("x", "B-null")]
