"""Unlimited windows: one window without end."""

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, unlimited

END = 2**63 - 1


def counting(start: int = 0) -> App:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(unlimited(start))
    windows.count(store="counts", name="count").to_stream().to("out")
    return app


def test_all_records_of_a_key_are_in_one_window() -> None:
    driver = run(counting(), ("a", "x", 0), ("a", "x", 1_000_000), ("b", "x", 5))
    assert rows(driver) == [(("a", 0, END), 1, 0), (("a", 0, END), 2, 1_000_000), (("b", 0, END), 1, 5)]


def test_no_record_is_late_and_the_timestamp_is_the_greatest() -> None:
    driver = run(counting(), ("a", "x", 1_000_000), ("a", "x", 0), ("a", "x", 1_000_000))
    assert rows(driver)[1:] == [(("a", 0, END), 2, 1_000_000), (("a", 0, END), 3, 1_000_000)]
    assert driver.dropped == {}


def test_a_record_before_the_start_is_in_no_window() -> None:
    driver = run(counting(start=100), ("a", "x", 99), ("a", "x", 100))
    assert rows(driver) == [(("a", 100, END), 1, 100)]


def test_null_keys_are_dropped_and_null_values_are_counted() -> None:
    driver = run(counting(), (None, "x", 0), ("a", None, 1))
    assert rows(driver) == [(("a", 0, END), 1, 1)]
    assert driver.dropped == {("count", "null key"): 1}


def test_rows_are_retained_forever() -> None:
    driver = run(counting(), ("a", "x", 0), ("b", "x", 10**15))
    assert driver.store("counts").fetch("a", 0) == 1


def test_a_negative_start_is_refused() -> None:
    refused(lambda: unlimited(-1), "start", hint=False)
