"""Outer join of two streams: unmatched records of both sides are emitted when their window closes."""

from __future__ import annotations

from typing import Any

from tests.operators.joins.script import IN_ORDER, dashed, on_left, on_right, play, run

from millstream import App, TestDriver, join_window


def joined(*window: Any, **options: Any) -> App:
    app = App("joins")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.outer_join(right, dashed, join_window(*window, **options), name="join").to("out")
    return app


def test_matches_are_emitted_as_in_an_inner_join() -> None:
    assert run(joined("1h"), *IN_ORDER) == {
        4: "A-a@4",
        5: "B-a@5",
        6: "A-b@6, B-b@6",
        9: "C-a@9, C-b@9",
        10: "A-c@10, B-c@10, C-c@10",
        14: "A-d@14, B-d@14, C-d@14",
        15: "D-a@15, D-b@15, D-c@15, D-d@15",
    }


def test_of_equal_times_the_right_side_is_emitted_first() -> None:
    # Kafka's testGracePeriod: 0 + 100 + 10 < stream time.
    steps = [
        on_left("A0", 0, key="0"),
        on_right("11", 0, key="1"),
        on_left("x", 110, key="z"),
        on_right("x", 110, key="z"),
        on_right("y", 111, key="z"),
    ]
    assert run(joined(100, grace=10), *steps, keys=True) == {
        4: "z:x-x@110",
        5: "1:null-11@0, 0:A0-null@0, z:x-y@111",
    }


def test_unmatched_records_of_both_sides_are_emitted_in_timestamp_order() -> None:
    steps = [on_left("A", 2, key="a"), on_right("b", 1, key="b"), on_left("C", 0, key="c"), on_left("D", 99, key="d")]
    assert run(joined(10), *steps) == {4: "C-null@0, null-b@1, A-null@2"}


def test_the_wait_of_a_left_record_is_after_and_of_a_right_one_before() -> None:
    steps = [
        on_left("A", 0, key="a"),
        on_right("b", 0, key="b"),
        on_left("x", 6, key="x"),
        on_left("y", 21, key="x"),
    ]
    # left: 0 + 5 < 6; right: 0 + 20 < 21. x has no match either: 6 + 5 < 21.
    assert run(joined(before=20, after=5), *steps) == {3: "A-null@0", 4: "null-b@0, x-null@6"}


def test_a_match_removes_the_waiting_record_of_the_other_side() -> None:
    assert run(joined(10), on_right("a", 0), on_left("A", 5), on_left("x", 999, key="x")) == {2: "A-a@5"}


def test_all_expired_records_are_emitted_together() -> None:
    # Deviation outer-join-release: Kafka Streams stops at the first record that still waits, and may emit others later.
    steps = [
        on_left("A", 0, key="a"),
        on_right("b", 1, key="b"),
        on_left("C", 2, key="c"),
        on_right("d", 3, key="d"),
        on_left("E", 1_000, key="e"),
    ]
    assert run(joined(10), *steps) == {5: "A-null@0, null-b@1, C-null@2, null-d@3"}


def test_records_with_null_keys_are_emitted_at_once_on_both_sides() -> None:
    steps = [on_left("E", 16, key=None), on_right("e", 17, key=None)]
    assert run(joined(10), *steps, keys=True) == {1: "null:E-null@16", 2: "null:null-e@17"}


def test_null_values_are_dropped_and_counted() -> None:
    with TestDriver(joined(10)) as driver:
        assert play(driver, on_left(None, 0), on_right(None, 0), on_left("x", 999)) == {}
        assert driver.dropped == {("join", "null value"): 2}


def test_late_unmatched_records_of_both_sides_are_emitted_at_once() -> None:
    steps = [on_left("x", 100, key="x"), on_right("a", 0), on_left("A", 50)]
    assert run(joined(10), *steps) == {2: "null-a@0", 3: "A-null@50"}


def test_eager_emits_unmatched_records_of_both_sides_at_once() -> None:
    assert run(joined(10, eager=True), on_right("a", 0), on_left("A", 5)) == {1: "null-a@0", 2: "A-a@5"}
