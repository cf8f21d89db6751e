"""Left join of two streams: unmatched left records are emitted when their window closes."""

from __future__ import annotations

from typing import Any

from tests.operators.joins.script import IN_ORDER, dashed, on_left, on_right, run

from millstream import App, TestDriver, join_window


def joined(*window: Any, **options: Any) -> App:
    app = App("joins")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.left_join(right, dashed, join_window(*window, **options), name="join").to("out")
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


def test_an_unmatched_record_is_emitted_when_stream_time_has_passed_window_and_grace() -> None:
    # 0 + 10 + 5 < stream time: not yet at 15.
    steps = [on_left("A", 0), on_right("x", 15, key="other"), on_right("y", 16, key="other")]
    assert run(joined(10, grace=5), *steps) == {3: "A-null@0"}


def test_both_sides_advance_the_time_of_the_join() -> None:
    assert run(joined(10), on_left("A", 0), on_left("B", 11, key="other")) == {2: "A-null@0"}


def test_a_matched_record_is_not_emitted_again() -> None:
    assert run(joined(10), on_left("A", 0), on_right("a", 10), on_right("x", 999)) == {2: "A-a@10"}


def test_one_partner_matches_all_records_of_that_key_and_time() -> None:
    steps = [on_left("A", 0), on_left("B", 0), on_right("a", 3), on_right("x", 999)]
    assert run(joined(10), *steps) == {3: "A-a@3, B-a@3"}


def test_unmatched_right_records_are_never_emitted() -> None:
    assert run(joined(10), on_right("a", 0), on_left("A", 999), on_right("b", 2_000)) == {3: "A-null@999"}


def test_the_wait_of_a_left_record_is_the_after_of_the_window() -> None:
    assert run(joined(before=100, after=0), on_left("A", 5), on_right("x", 6, key="other")) == {2: "A-null@5"}


def test_with_a_negative_after_an_unmatched_record_is_emitted_at_once() -> None:
    # Its partners would be at least 5 earlier: they could only arrive late.
    assert run(joined(before=10, after=-5, grace=50), on_left("A", 20)) == {1: "A-null@20"}


def test_expired_records_are_emitted_by_time_then_key_then_arrival() -> None:
    steps = [
        on_left("B0", 1, key="b"),
        on_left("A1", 1, key="a"),
        on_left("A2", 1, key="a"),
        on_left("B", 0, key="b"),
        on_right("x", 99, key="other"),
    ]
    assert run(joined(10), *steps) == {5: "B-null@0, A1-null@1, A2-null@1, B0-null@1"}


def test_expired_records_are_emitted_before_the_record_that_expires_them_is_joined() -> None:
    steps = [on_right("r", 90), on_left("A", 0, key="other"), on_left("B", 100)]
    assert run(joined(10), steps[1], steps[0], steps[2]) == {2: "A-null@0", 3: "B-r@100"}


def test_unmatched_results_have_the_headers_of_the_record_that_expired_them() -> None:
    with TestDriver(joined(10)) as driver:
        driver.input("left").pipe("k", "A", timestamp=0, headers={"own": "1"})
        driver.input("right").pipe("other", "x", timestamp=99, headers={"releaser": "2"})
        assert driver.output("out").read().headers == (("releaser", b"2"),)


def test_only_a_record_at_stream_time_emits_expired_records() -> None:
    with_null = [on_left("A", 0), on_right(None, 100), on_right("x", 50, key="other"), on_right("y", 100, key="other")]
    assert run(joined(10), *with_null) == {4: "A-null@0"}


def test_a_late_unmatched_record_is_emitted_at_once() -> None:
    assert run(joined(10), on_right("x", 100, key="other"), on_left("A", 0)) == {2: "A-null@0"}


def test_within_grace_a_late_record_may_be_emitted_unmatched_and_matched() -> None:
    steps = [on_right("x", 11, key="other"), on_left("A", 0), on_right("a", 5)]
    assert run(joined(10, grace=1_000), *steps) == {2: "A-null@0", 3: "A-a@5"}


def test_a_left_record_with_a_null_key_is_emitted_at_once_and_a_right_one_is_dropped() -> None:
    with TestDriver(joined(10)) as driver:
        driver.input("left").pipe(None, "E", timestamp=16)
        driver.input("right").pipe(None, "e", timestamp=17)
        assert driver.output("out").read_pairs() == [(None, "E-null")]
        assert driver.dropped == {("join", "null key"): 1}


def test_null_values_are_dropped_on_both_sides_and_emit_nothing_but_advance_time() -> None:
    steps = [on_left("A", 0), on_left(None, 100), on_right(None, 200), on_left("late", 150, key="other")]
    # At 150 + 10 < 200 the last record is late already; A waits for a record at the join's time, 200.
    assert run(joined(10), *steps) == {4: "late-null@150"}
    assert run(joined(10), *steps, on_left("B", 200, key="z")) == {4: "late-null@150", 5: "A-null@0"}


def test_eager_emits_unmatched_records_at_once() -> None:
    assert run(joined(10, eager=True), on_left("A", 0), on_right("a", 5), on_right("x", 99)) == {
        1: "A-null@0",
        2: "A-a@5",
    }
