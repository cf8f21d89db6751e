"""A join with a versioned table and a grace period: records are buffered so that the table can catch up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver, TopologyError


def joined(how: str = "join", *, grace: Any = 10, history: Any = "5m") -> App:
    app = App("joins")
    table = app.table("right", value=str, store=Materialized("table", history=history))
    result = getattr(app.stream("left", value=str), how)(table, dashed, grace=grace, name="join")
    result.to("out")
    result.late().to("late")
    return app


def test_an_inner_join_of_out_of_order_input() -> None:
    assert run(joined(grace=2), *OUT_OF_ORDER) == {9: "B-a@5", 15: "D-b@6", 22: "F-a@4"}


def test_a_left_join_of_out_of_order_input() -> None:
    assert run(joined("left_join", grace=2), *OUT_OF_ORDER) == {
        5: "A-null@3",
        9: "B-a@5",
        15: "D-b@6",
        19: "C-null@9",
        22: "F-a@4",
    }


def test_a_record_joins_a_row_that_arrived_after_it_within_the_grace() -> None:
    assert run(joined(), on_left("A", 5), on_right("a", 3), on_left("B", 15)) == {3: "A-a@5"}


def test_a_record_is_joined_when_stream_time_reaches_its_time_and_grace() -> None:
    steps = [on_right("a", 0), on_left("A", 5), on_left("B", 14), on_left("C", 15)]
    assert run(joined(), *steps) == {4: "A-a@5"}


def test_the_table_does_not_advance_the_time_of_the_join() -> None:
    assert run(joined(), on_left("A", 5), on_right("a", 0), on_right("x", 999, key="other")) == {}


def test_a_record_older_than_the_grace_is_joined_at_once_and_is_late() -> None:
    with TestDriver(joined()) as driver:
        steps = [on_right("a", 0), on_left("A", 20), on_left("B", 10), on_left("C", 9)]
        # B is at 20 - 10: it is buffered, and emitted in the same step. C is too old to be buffered.
        assert play(driver, *steps) == {3: "B-a@10", 4: "C-a@9"}
        assert driver.output("late").read_values() == ["C"]


def test_records_leave_the_buffer_by_time_then_key_then_arrival() -> None:
    steps = [
        on_left("B", 2, key="b"),
        on_left("A1", 2, key="a"),
        on_left("A2", 2, key="a"),
        on_left("C", 1, key="c"),
        on_left("x", 99, key="x"),
    ]
    assert run(joined("left_join"), *steps) == {5: "C-null@1, A1-null@2, A2-null@2, B-null@2"}


def test_a_grace_of_zero_delays_no_record() -> None:
    assert run(joined(grace=0), on_right("a", 0), on_left("A", 5)) == {2: "A-a@5"}


def test_waiting_records_keep_their_own_headers() -> None:
    with TestDriver(joined("left_join")) as driver:
        driver.input("left").pipe("k", "A", timestamp=0, headers={"own": "1"})
        driver.input("left").pipe("k", "B", timestamp=10, headers={"own": "2"})
        assert driver.output("out").read().headers == (("own", b"1"),)


def test_null_keys_do_not_wait_in_a_left_join_and_are_dropped_in_an_inner_one() -> None:
    assert run(joined("left_join"), on_left("A", 5, key=None)) == {1: "A-null@5"}
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("A", 5, key=None), on_left(None, 5)) == {}
        assert driver.dropped == {("join", "null key"): 1, ("join", "null value"): 1}


def test_a_grace_needs_a_versioned_table() -> None:
    app = App("joins")
    table = app.table("right", value=str, store="table")
    with pytest.raises(TopologyError, match=r"versioned table\n  hint: .*history="):
        app.stream("left", value=str).join(table, dashed, grace="1s")


def test_a_grace_must_not_be_longer_than_the_history() -> None:
    with pytest.raises(TopologyError, match="grace 2s is longer than the table's history"):
        joined(grace="2s", history="1s")


def test_a_negative_grace_is_refused() -> None:
    with pytest.raises(TopologyError, match="grace must not be negative"):
        joined(grace=-1)
