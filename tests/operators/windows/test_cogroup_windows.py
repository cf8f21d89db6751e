"""cogroup in windows: the streams share the rows of each window, but each has its own time."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Any

from tests.operators.harness import refused, rows, send

from millstream import App, Materialized, TestDriver, hopping, session, sliding, tumbling


def traces(window: Any, merger: Any = None, retention: int | None = None) -> TestDriver:
    """Adds left records unchanged, and right ones in capitals."""
    app = App("test")
    left, right = (app.stream(topic, value=str).group_by_key() for topic in ("left", "right"))
    left.cogroup(lambda word, agg: agg + word).cogroup(right, lambda word, agg: agg + word.upper()).windowed_by(
        window
    ).aggregate(str, merger, value=str, store=Materialized("traces", retention=retention)).to_stream().to("out")
    return TestDriver(app)


def joined(left: str, right: str) -> str:
    return left + right


def test_tumbling_windows_are_shared() -> None:
    driver = traces(tumbling(10))
    send(driver, ("a", "x", 1), topic="left")
    send(driver, ("a", "y", 9), ("a", "z", 10), topic="right")
    assert rows(driver) == [(("a", 0, 10), "x", 1), (("a", 0, 10), "xY", 9), (("a", 10, 20), "Z", 10)]


def test_hopping_windows_are_shared() -> None:
    driver = traces(hopping(10, 5))
    send(driver, ("a", "x", 7), topic="left")
    send(driver, ("a", "y", 8), topic="right")
    assert rows(driver)[2:] == [(("a", 0, 10), "xY", 8), (("a", 5, 15), "xY", 8)]


def test_sliding_windows_are_shared() -> None:
    driver = traces(sliding(10))
    send(driver, ("a", "x", 20), topic="left")
    send(driver, ("a", "y", 25), topic="right")
    assert rows(driver) == [(("a", 10, 20), "x", 20), (("a", 21, 31), "Y", 25), (("a", 15, 25), "xY", 25)]


def test_sessions_are_shared_and_merged() -> None:
    driver = traces(session(10, grace=100), joined)
    send(driver, ("a", "x", 0), topic="left")
    send(driver, ("a", "y", 15), topic="right")
    send(driver, ("a", "z", 8), topic="left")
    assert rows(driver)[2:] == [(("a", 0, 0), None, 0), (("a", 15, 15), None, 15), (("a", 0, 15), "xYz", 15)]


def test_each_stream_has_its_own_time_so_records_of_one_do_not_make_the_other_late() -> None:
    driver = traces(tumbling(10), retention=1_000)
    send(driver, ("a", "x", 1), topic="left")
    send(driver, ("b", "y", 100), topic="right")
    send(driver, ("a", "z", 5), topic="left")
    assert rows(driver)[-1] == (("a", 0, 10), "xz", 5)
    send(driver, ("a", "late", 5), topic="right")
    assert list(driver.dropped.values()) == [1]
    assert next(iter(driver.dropped))[1] == "late"


def test_the_store_evicts_by_the_latest_time_of_all_streams() -> None:
    driver = traces(tumbling(10))
    send(driver, ("a", "x", 1), topic="left")
    send(driver, ("b", "y", 100), topic="right")
    send(driver, ("a", "z", 5), topic="left")
    assert rows(driver)[-1] == (("a", 0, 10), "z", 5)


def test_null_keys_are_dropped_and_null_values_passed_to_the_aggregator() -> None:
    app = App("test")
    left, right = (app.stream(topic, value=str).group_by_key() for topic in ("left", "right"))
    left.cogroup(lambda word, n: n + 1).cogroup(right, lambda word, n: n + 10).windowed_by(tumbling(10)).aggregate(
        lambda: 0, value=int
    ).to_stream().to("out")
    driver = TestDriver(app)
    send(driver, (None, "x", 1), ("a", None, 2), topic="left")
    assert rows(driver) == [(("a", 0, 10), 1, 2)]
    assert list(driver.dropped.values()) == [1]


def test_out_of_order_records_and_records_of_equal_time_keep_the_greatest_timestamp() -> None:
    driver = traces(tumbling(10))
    send(driver, ("a", "x", 7), topic="left")
    send(driver, ("a", "y", 3), ("a", "z", 7), topic="right")
    assert rows(driver) == [(("a", 0, 10), "x", 7), (("a", 0, 10), "xY", 7), (("a", 0, 10), "xYZ", 7)]


def test_sessions_without_a_merger_are_refused() -> None:
    cogrouped = App("test").stream("in").group_by_key().cogroup(lambda v, agg: agg)
    refused(lambda: cogrouped.windowed_by(session(10)).aggregate(list), "merger")


def test_an_object_that_is_not_a_window_is_refused() -> None:
    cogrouped = App("test").stream("in").group_by_key().cogroup(lambda v, agg: agg)
    refused(lambda: cogrouped.windowed_by("10s"), "expected windows", "tumbling")
