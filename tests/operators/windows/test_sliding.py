"""Sliding windows: one for each distinct set of records within a difference; both ends are inclusive."""

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, run, send

from millstream import App, sliding


def counting(difference: int = 10, **options: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(sliding(difference, **options))
    counts = windows.count(store="counts", name="count")
    counts.to_stream().to("out")
    counts.late().to("late")
    return app


def test_the_first_record_of_a_key_creates_the_window_that_ends_with_it() -> None:
    assert rows(run(counting(), ("a", "x", 20))) == [(("a", 10, 20), 1, 20)]


def test_a_record_creates_the_right_window_of_its_predecessor_then_its_own_left_window() -> None:
    driver = run(counting(), ("a", "x", 20), ("a", "x", 25))
    assert rows(driver)[1:] == [(("a", 21, 31), 1, 25), (("a", 15, 25), 2, 25)]


def test_records_exactly_the_difference_apart_are_in_one_window() -> None:
    assert (("a", 20, 30), 2, 30) in rows(run(counting(), ("a", "x", 20), ("a", "x", 30)))


def test_a_record_further_apart_is_alone_in_its_window() -> None:
    assert rows(run(counting(), ("a", "x", 20), ("a", "x", 32)))[1:] == [(("a", 22, 32), 1, 32)]


def test_a_window_that_is_right_of_the_predecessor_and_left_of_the_record_is_emitted_twice() -> None:
    driver = run(counting(), ("a", "x", 12), ("a", "x", 20), ("a", "x", 31))
    assert rows(driver)[3:] == [(("a", 21, 31), 1, 31), (("a", 21, 31), 1, 31)]


def test_a_record_of_an_equal_timestamp_updates_the_same_windows_and_creates_none() -> None:
    driver = run(counting(), ("a", "x", 20), ("a", "x", 20))
    assert rows(driver) == [(("a", 10, 20), 1, 20), (("a", 10, 20), 2, 20)]


def test_an_out_of_order_record_updates_windows_and_creates_its_left_and_right_windows() -> None:
    driver = run(counting(grace=100), ("a", "x", 30), ("a", "x", 25))
    # [20, 30] contains both; [15, 25] ends with the new record; [26, 36] starts after it
    assert rows(driver)[1:] == [(("a", 20, 30), 2, 30), (("a", 15, 25), 1, 25), (("a", 26, 36), 1, 30)]


def test_records_before_the_difference_share_the_window_from_zero() -> None:
    driver = run(counting(), ("a", "x", 3), ("a", "x", 5), ("a", "x", 4))
    assert rows(driver) == [
        (("a", 0, 10), 1, 3),
        (("a", 4, 14), 1, 5),
        (("a", 0, 10), 2, 5),
        (("a", 4, 14), 2, 5),
        (("a", 5, 15), 1, 5),
        (("a", 0, 10), 3, 5),
    ]


def test_the_windows_of_two_keys_as_in_kafka_streams_own_test() -> None:
    records = [("1", 100), ("1", 150), ("1", 500), ("2", 200), ("2", 150)]
    driver = run(counting(100, grace=1_000), *((key, "x", time) for key, time in records))
    assert driver.store("counts").all() == [
        (("1", 0, 100), 1),
        (("1", 50, 150), 2),
        (("1", 101, 201), 1),
        (("1", 400, 500), 1),
        (("2", 50, 150), 1),
        (("2", 100, 200), 2),
        (("2", 151, 251), 1),
    ]


def test_null_keys_are_dropped_and_counted_and_do_not_advance_time() -> None:
    driver = run(counting(), (None, "x", 100), ("a", "x", 20))
    assert rows(driver) == [(("a", 10, 20), 1, 20)]
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_dropped_and_counted_and_do_not_advance_time() -> None:
    driver = run(counting(), ("b", None, 100), ("a", "x", 20))
    assert rows(driver) == [(("a", 10, 20), 1, 20)]
    assert driver.dropped == {("count", "null value"): 1}


def test_a_window_accepts_records_until_stream_time_has_passed_its_end_and_grace() -> None:
    driver = run(counting(grace=5), ("a", "x", 20), ("b", "x", 25), ("a", "x", 20))
    assert rows(driver)[2:] == [(("a", 10, 20), 2, 20)]
    send(driver, ("b", "x", 26), ("a", "x", 20))
    assert rows(driver)[-1][0][0] == "b"
    assert driver.dropped == {("count", "late"): 1}


def test_a_record_is_late_when_stream_time_has_passed_its_time_difference_and_grace() -> None:
    driver = run(counting(grace=5), ("b", "x", 29), ("a", "x", 14))
    # 14 + 10 + 5 is reached and not passed: its window [4, 14] is closed, its right window would be open
    assert rows(driver, "late") == []
    send(driver, ("b", "x", 30), ("a", "x", 14))
    assert rows(driver, "late") == [("a", "x", 14)]
    assert driver.dropped == {("count", "late"): 2}


def test_reduce_seeds_a_new_window_with_the_records_of_an_earlier_one() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(sliding(10))
    windows.reduce(lambda words, word: f"{words}+{word}").to_stream().to("out")
    driver = run(app, ("a", "x", 20), ("a", "y", 25), ("a", "z", 28))
    assert rows(driver)[-3:] == [
        (("a", 21, 31), "y+z", 28),
        (("a", 26, 36), "z", 28),
        (("a", 18, 28), "x+y+z", 28),
    ]


def test_a_difference_of_zero_groups_records_of_equal_time() -> None:
    driver = run(counting(0, grace=5), ("a", "x", 5), ("a", "x", 5), ("a", "x", 6))
    assert driver.store("counts").all() == [(("a", 5, 5), 2), (("a", 6, 6), 1)]


def test_a_negative_difference_is_refused() -> None:
    refused(lambda: sliding(-1), "must not be negative", hint=False)
