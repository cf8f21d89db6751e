"""Hopping windows: overlapping windows of fixed size that start every advance."""

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, run, send

from millstream import App, hopping, tumbling


def counting(**options: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(hopping(10, 5, **options))
    windows.count(store="counts", name="count").to_stream().to("out")
    return app


def test_a_record_updates_all_its_windows_in_the_order_of_their_starts() -> None:
    driver = run(counting(), ("a", "x", 7), ("a", "x", 12))
    assert rows(driver) == [
        (("a", 0, 10), 1, 7),
        (("a", 5, 15), 1, 7),
        (("a", 5, 15), 2, 12),
        (("a", 10, 20), 1, 12),
    ]


def test_no_window_starts_before_time_zero() -> None:
    assert rows(run(counting(), ("a", "x", 3))) == [(("a", 0, 10), 1, 3)]


def test_the_end_is_exclusive() -> None:
    assert [key for key, _, _ in rows(run(counting(), ("a", "x", 10)))] == [("a", 5, 15), ("a", 10, 20)]


def test_an_advance_that_does_not_divide_the_size() -> None:
    app = App("test")
    app.stream("in", value=str).group_by_key().windowed_by(hopping(10, 4)).count().to_stream().to("out")
    assert [key for key, _, _ in rows(run(app, ("a", "x", 13)))] == [("a", 4, 14), ("a", 8, 18), ("a", 12, 22)]


def test_a_record_is_counted_as_late_for_each_closed_window() -> None:
    driver = run(counting(), ("b", "x", 10), ("a", "x", 7))
    assert rows(driver)[2:] == [(("a", 5, 15), 1, 7)]
    assert driver.dropped == {("count", "late"): 1}


def test_a_record_that_is_late_for_all_its_windows_is_counted_for_each() -> None:
    driver = run(counting(), ("b", "x", 20), ("a", "x", 7))
    assert rows(driver)[2:] == []
    assert driver.dropped == {("count", "late"): 2}


def test_with_grace_a_window_accepts_records_until_stream_time_reaches_end_and_grace() -> None:
    driver = run(counting(grace=3), ("b", "x", 12), ("a", "x", 4))
    assert rows(driver)[2:] == [(("a", 0, 10), 1, 4)]
    send(driver, ("b", "x", 13), ("a", "x", 4))
    assert driver.dropped == {("count", "late"): 1}


def test_null_keys_are_dropped_and_counted_once_and_do_not_advance_time() -> None:
    driver = run(counting(), (None, "x", 100), ("a", "x", 3))
    assert rows(driver) == [(("a", 0, 10), 1, 3)]
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_counted() -> None:
    assert rows(run(counting(), ("a", None, 3))) == [(("a", 0, 10), 1, 3)]


def test_the_timestamp_is_the_greatest_of_each_window() -> None:
    driver = run(counting(), ("a", "x", 9), ("a", "x", 4), ("a", "x", 6))
    assert rows(driver)[2:] == [(("a", 0, 10), 2, 9), (("a", 0, 10), 3, 9), (("a", 5, 15), 2, 9)]


def test_records_of_equal_timestamps_are_all_counted() -> None:
    assert rows(run(counting(), ("a", "x", 3), ("a", "x", 3)))[1:] == [(("a", 0, 10), 2, 3)]


def test_an_advance_equal_to_the_size_defines_tumbling_windows() -> None:
    assert hopping("10s", "10s", grace="1s") == tumbling("10s", grace="1s")


def test_an_advance_that_leaves_gaps_is_refused() -> None:
    refused(lambda: hopping(10, 11), "advance", "gaps")


def test_an_advance_of_zero_is_refused() -> None:
    refused(lambda: hopping(10, 0), "advance must be more than zero")
