"""Tumbling windows: fixed size, no gaps; the end is exclusive."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="operator"

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.operators.harness import refused, rows, run, send

from millstream import App, tumbling


def counting(**options: Any) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10, **options))
    windows.count(store="counts", name="count").to_stream().to("out")
    return app


def test_windows_are_aligned_to_the_epoch_and_the_end_is_exclusive() -> None:
    driver = run(counting(), ("a", "x", 0), ("a", "x", 9), ("a", "x", 10))
    assert rows(driver) == [(("a", 0, 10), 1, 0), (("a", 0, 10), 2, 9), (("a", 10, 20), 1, 10)]


def test_each_key_has_its_own_windows() -> None:
    assert rows(run(counting(), ("a", "x", 1), ("b", "x", 2))) == [(("a", 0, 10), 1, 1), (("b", 0, 10), 1, 2)]


def test_the_timestamp_is_the_greatest_of_the_window() -> None:
    driver = run(counting(), ("a", "x", 7), ("a", "x", 3), ("a", "x", 7))
    assert rows(driver) == [(("a", 0, 10), 1, 7), (("a", 0, 10), 2, 7), (("a", 0, 10), 3, 7)]


def test_null_keys_are_dropped_and_counted_and_do_not_advance_time() -> None:
    driver = run(counting(), (None, "x", 100), ("a", "x", 5))
    assert rows(driver) == [(("a", 0, 10), 1, 5)]
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_counted_and_advance_time() -> None:
    driver = run(counting(), ("a", None, 5), ("b", None, 10), ("a", "x", 6))
    assert rows(driver) == [(("a", 0, 10), 1, 5), (("b", 10, 20), 1, 10)]
    assert driver.dropped == {("count", "late"): 1}


def test_aggregators_are_called_with_null_values() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10))
    windows.aggregate(list, lambda word, words: [*words, word]).to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", None, 2))) == [(("a", 0, 10), ["x"], 1), (("a", 0, 10), ["x", None], 2)]


def test_without_grace_a_window_accepts_records_until_stream_time_reaches_its_end() -> None:
    driver = run(counting(), ("b", "x", 9), ("a", "x", 5), ("b", "x", 10), ("a", "x", 6))
    assert rows(driver)[1:] == [(("a", 0, 10), 1, 5), (("b", 10, 20), 1, 10)]
    assert driver.dropped == {("count", "late"): 1}


def test_with_grace_a_window_accepts_records_until_stream_time_reaches_end_and_grace() -> None:
    driver = run(counting(grace=5), ("b", "x", 14), ("a", "x", 9))
    assert rows(driver)[1:] == [(("a", 0, 10), 1, 9)]
    send(driver, ("b", "x", 15), ("a", "x", 9))
    assert rows(driver)[2:] == [(("b", 10, 20), 2, 15)]
    assert driver.dropped == {("count", "late"): 1}


def test_lateness_depends_on_the_window_not_on_the_time_of_the_record() -> None:
    # 1 is older than 9, but both are in the window that is still open
    driver = run(counting(grace=5), ("b", "x", 14), ("a", "x", 1))
    assert driver.dropped == {}


def test_a_late_record_does_not_move_time_back() -> None:
    driver = run(counting(), ("b", "x", 10), ("a", "x", 5), ("a", "x", 6))
    assert driver.dropped == {("count", "late"): 2}


def test_reduce_starts_over_in_each_window() -> None:
    app = App("test")
    windows = app.stream("in", value=int).group_by_key().windowed_by(tumbling(10, grace=10))
    windows.reduce(lambda a, n: a + n).to_stream().to("out")
    assert rows(run(app, ("a", 1, 1), ("a", 2, 11), ("a", 3, 2))) == [
        (("a", 0, 10), 1, 1),
        (("a", 10, 20), 2, 11),
        (("a", 0, 10), 4, 2),
    ]


def test_an_aggregator_that_returns_none_deletes_the_row_of_that_window() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10))
    windows.aggregate(
        lambda: 0, lambda word, n: None if word == "stop" else n + 1, value=int, store="counts"
    ).to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", "stop", 2), ("a", "y", 1))
    assert rows(driver) == [(("a", 0, 10), 1, 1), (("a", 0, 10), None, 2), (("a", 0, 10), 1, 1)]


def test_a_windowed_count_can_be_grouped_again_by_the_key() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count()
    counts.group_by(lambda windowed, n: (windowed.key, n), value=int).reduce(
        lambda total, n: total + n, lambda total, n: total - n
    ).to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", "x", 2), ("a", "x", 11))) == [("a", 1, 1), ("a", 2, 2), ("a", 3, 11)]


def test_the_store_finds_windows_by_key_and_start() -> None:
    store = run(counting(grace=10), ("a", "x", 1), ("a", "x", 12), ("b", "x", 13)).store("counts")
    assert store.fetch("a", 10) == 1
    assert store.fetch("a", 0, 10) == [(0, 1), (10, 1)]


def test_a_duration_may_be_written_in_three_ways() -> None:
    assert tumbling("1m30s") == tumbling(90_000) == tumbling(timedelta(seconds=90))


def test_a_size_of_zero_is_refused() -> None:
    refused(lambda: tumbling(0), "window size must be more than zero", hint=False)


def test_a_negative_grace_is_refused() -> None:
    refused(lambda: tumbling(10, grace=-1), "grace must not be negative", hint=False)
