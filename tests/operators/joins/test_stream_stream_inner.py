"""Inner join of two streams: every pair of records with one key whose times are within the window."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import IN_ORDER, dashed, on_left, on_right, run

from millstream import App, TestDriver, join_window


def joined(*window: Any, **options: Any) -> App:
    app = App("joins")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.join(right, dashed, join_window(*window, **options), name="join").to("out")
    return app


def test_each_record_joins_all_earlier_records_of_the_other_side_in_timestamp_order() -> None:
    assert run(joined("1h"), *IN_ORDER) == {
        4: "A-a@4",
        5: "B-a@5",
        6: "A-b@6, B-b@6",
        9: "C-a@9, C-b@9",
        10: "A-c@10, B-c@10, C-c@10",
        14: "A-d@14, B-d@14, C-d@14",
        15: "D-a@15, D-b@15, D-c@15, D-d@15",
    }


def test_both_ends_of_the_window_are_inclusive() -> None:
    rights = [on_right(f"r{ts}", ts) for ts in (89, 90, 110, 111)]
    assert run(joined(10), on_left("A", 100), *rights) == {3: "A-r90@100", 4: "A-r110@110"}


@pytest.mark.parametrize("first", ["left", "right"])
def test_before_and_after_bound_the_time_of_the_right_record(first: str) -> None:
    rights = [on_right(f"r{ts}", ts) for ts in (97, 98, 105, 106)]
    steps = [on_left("A", 100), *rights] if first == "left" else [*rights, on_left("A", 100)]
    pairs = ", ".join(run(joined(before=2, after=5, grace=100), *steps).values())
    assert pairs == "A-r98@100, A-r105@105"


def test_a_negative_after_requires_an_earlier_right_record() -> None:
    rights = [on_right(f"r{ts}", ts) for ts in (9, 10, 15, 16)]
    assert run(joined(before=10, after=-5, grace=100), *rights, on_left("A", 20)) == {5: "A-r10@20, A-r15@20"}


def test_a_negative_before_requires_a_later_right_record() -> None:
    rights = [on_right(f"r{ts}", ts) for ts in (24, 25, 30, 31)]
    assert run(joined(before=-5, after=10), on_left("A", 20), *rights) == {3: "A-r25@25", 4: "A-r30@30"}


def test_the_searched_range_never_starts_or_ends_before_time_zero() -> None:
    # Exactly 10 later; but a right record before 10 searches from time 0.
    steps = [on_left("A", 0), on_right("r5", 5), on_right("r10", 10), on_right("r11", 11)]
    assert run(joined(before=-10, after=10, grace=1), *steps) == {2: "A-r5@5", 3: "A-r10@10"}


def test_records_of_equal_time_are_all_joined_in_order_of_arrival() -> None:
    assert run(joined(10), on_left("B", 5), on_left("A", 5), on_left("A", 5), on_right("r", 5)) == {
        4: "B-r@5, A-r@5, A-r@5"
    }


def test_an_out_of_order_record_joins_later_records_and_the_result_has_the_later_time() -> None:
    assert run(joined(10), on_left("A", 10), on_left("B", 12), on_right("r", 5)) == {3: "A-r@10, B-r@12"}


def test_records_of_different_keys_are_not_joined() -> None:
    assert run(joined(10), on_left("A", 0, key="x"), on_right("a", 0, key="y")) == {}


def test_results_have_the_key_and_the_headers_of_the_record_that_completed_the_pair() -> None:
    with TestDriver(joined(10)) as driver:
        driver.input("left").pipe("k", "A", timestamp=0, headers={"from": "left"})
        driver.input("right").pipe("k", "a", timestamp=1, headers={"from": "right"})
        result = driver.output("out").read()
        assert (result.key, result.headers) == ("k", (("from", b"right"),))


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    with TestDriver(joined(10)) as driver:
        driver.input("left").pipe(None, "A")
        driver.input("right").pipe(None, "a")
        driver.input("left").pipe("k", None)
        driver.input("right").pipe("k", None)
        assert driver.output("out").is_empty
        assert driver.dropped == {("join", "null key"): 2, ("join", "null value"): 2}


def test_a_side_evicts_records_older_than_window_and_grace_by_its_own_time() -> None:
    # Retained while ts > (greatest time of that side) - (before + after + grace): 20 here.
    assert run(joined(10), on_left("A", 0), on_left("B", 19), on_right("a", 5)) == {3: "A-a@5"}
    assert run(joined(10), on_left("A", 0), on_left("B", 20), on_right("a", 5)) == {}


def test_grace_extends_the_retention_of_records() -> None:
    assert run(joined(10, grace=1), on_left("A", 0), on_left("B", 20), on_right("a", 5)) == {3: "A-a@5"}


def test_a_window_of_no_length_without_grace_joins_nothing() -> None:
    assert run(joined(0), on_left("A", 5), on_right("a", 5)) == {}
    assert run(joined(0, grace=1), on_left("A", 5), on_right("a", 5)) == {2: "A-a@5"}


def test_the_time_of_the_other_side_evicts_nothing() -> None:
    assert run(joined(10), on_left("A", 0), on_right("z", 9_999, key="other"), on_right("a", 5)) == {3: "A-a@5"}


def test_a_late_record_without_partner_emits_nothing() -> None:
    assert run(joined(10), on_left("A", 1_000), on_right("a", 0)) == {}
