"""Outer join of two tables: a row for every key of either."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import IN_ORDER, OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver


def joined(store: Any = None, *, left: Any = None, right: Any = None) -> App:
    app = App("joins")
    tables = app.table("left", value=str, store=left), app.table("right", value=str, store=right)
    tables[0].outer_join(tables[1], dashed, store=store).to_stream().to("out")
    return app


plain_or_stored = pytest.mark.parametrize("store", [None, "joined"])


@plain_or_stored
def test_a_row_of_either_side_without_partner_is_joined_with_null(store: str | None) -> None:
    assert run(joined(store), *IN_ORDER) == {
        3: "A-null@3",
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null-b@7",
        8: "null@8",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        14: "null-d@14",
        15: "D-d@15",
    }


@plain_or_stored
def test_out_of_order_changes_are_applied_in_order_of_arrival(store: str | None) -> None:
    assert run(joined(store), *OUT_OF_ORDER) == {
        3: "A-null@3",
        4: "A-a@4",
        5: "B-a@5",
        6: "B-b@6",
        7: "null-b@7",
        8: "null@8",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        14: "null-d@7",
        15: "D-d@7",
        16: "null-d@7",
        17: "null@3",
        18: "null-e@14",
        19: "E-e@15",
        20: "null-e@14",
        21: "null@9",
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
        7: "null-b@7",
        8: "null@8",
        9: "C-null@9",
        10: "C-c@10",
        11: "C-null@11",
        12: "null@12",
        18: "null-e@14",
        19: "E-e@15",
    }


def test_the_store_of_a_join_can_be_queried() -> None:
    with TestDriver(joined("joined")) as driver:
        play(driver, on_left("A", 3), on_right("b", 4, key="x"))
        assert list(driver.store("joined").all()) == [("k", "A-null"), ("x", "null-b")]
