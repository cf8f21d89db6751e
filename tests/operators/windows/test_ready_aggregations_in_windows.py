"""Ready aggregations in tumbling windows and in sessions, which are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import rows, run

from millstream import App, WindowedStream, session, tumbling

Make = Callable[[WindowedStream[str, Any]], Any]


def results(window: Any, make: Make, *records: tuple[Any, ...]) -> list[tuple[Any, Any, int]]:
    app = App("test")
    make(app.stream("in", value=int).group_by_key().windowed_by(window)).to_stream().to("out")
    return rows(run(app, *records))


AGGREGATIONS: dict[str, tuple[Make, Any, Any]] = {
    # the aggregation, its result for 3, 1, 4 in one window, and for the sessions (5, 1) and (4) merged by a 2
    "sum": (lambda w: w.sum(), 8, 12),
    "min": (lambda w: w.min(), 1, 1),
    "max": (lambda w: w.max(), 4, 5),
    "avg": (lambda w: w.avg(), 8 / 3, 3.0),
    "top_k": (lambda w: w.top_k(2), [4, 3], [5, 4]),
    "collect": (lambda w: w.collect(), [3, 1, 4], [5, 1, 4, 2]),
    "collect limited": (lambda w: w.collect(limit=3), [3, 1, 4], [5, 1, 4]),
    "count_distinct": (lambda w: w.count_distinct(), 3, 4),
    "first": (lambda w: w.first(), 3, 5),
    "last": (lambda w: w.last(), 4, 2),
}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_in_a_tumbling_window(name: str) -> None:
    make, expected, _ = AGGREGATIONS[name]
    outputs = results(tumbling(10), make, ("a", 3, 1), ("a", 1, 2), ("a", 4, 3))
    assert outputs[-1] == (("a", 0, 10), expected, 3)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_each_tumbling_window_has_its_own_aggregate(name: str) -> None:
    make, _, _ = AGGREGATIONS[name]
    outputs = results(tumbling(10), make, ("a", 3, 1), ("a", 5, 11))
    alone = results(tumbling(10), make, ("a", 5, 11))
    assert outputs[-1:] == alone


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_sessions_are_merged_in_the_order_of_time_before_the_record_is_added(name: str) -> None:
    make, _, expected = AGGREGATIONS[name]
    outputs = results(session(10, grace=100), make, ("a", 5, 0), ("a", 1, 1), ("a", 4, 15), ("a", 2, 8))
    assert outputs[-3:] == [(("a", 0, 1), None, 1), (("a", 15, 15), None, 15), (("a", 0, 15), expected, 15)]


@pytest.mark.parametrize("window", [tumbling(10), session(10)], ids=["tumbling", "session"])
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda w: w.sum(), 3, id="sum"),
        pytest.param(lambda w: w.min(), 3, id="min"),
        pytest.param(lambda w: w.max(), 3, id="max"),
        pytest.param(lambda w: w.avg(), 3.0, id="avg"),
        pytest.param(lambda w: w.top_k(2), [3], id="top_k"),
        pytest.param(lambda w: w.collect(), [3], id="collect"),
        pytest.param(lambda w: w.count_distinct(), 1, id="count_distinct"),
        pytest.param(lambda w: w.first(), 3, id="first"),
        pytest.param(lambda w: w.last(), 3, id="last"),
    ],
)
def test_null_values_are_skipped(window: Any, make: Make, expected: Any) -> None:
    assert results(window, make, ("a", 3, 1), ("a", None, 2))[-1][1] == expected


@pytest.mark.parametrize("name", ["sum", "avg", "collect", "last"])
def test_late_records_are_dropped_and_counted(name: str) -> None:
    app = App("test")
    windows = app.stream("in", value=int).group_by_key().windowed_by(tumbling(10, grace=5))
    AGGREGATIONS[name][0](windows).to_stream().to("out")
    driver = run(app, ("b", 1, 15), ("a", 1, 9))
    assert [reason for _, reason in driver.dropped] == ["late"]


def test_null_keys_are_dropped_and_counted() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling(10)).sum(name="sum").to_stream().to("out")
    driver = run(app, (None, 1, 1))
    assert (rows(driver), driver.dropped) == ([], {("sum", "null key"): 1})


def test_an_average_of_null_values_only_is_none() -> None:
    assert results(tumbling(10), lambda w: w.avg(), ("a", None, 1)) == [(("a", 0, 10), None, 1)]


def test_out_of_order_records_and_records_of_equal_time_keep_the_greatest_timestamp() -> None:
    outputs = results(tumbling(10), lambda w: w.sum(), ("a", 1, 7), ("a", 2, 3), ("a", 3, 7))
    assert outputs == [(("a", 0, 10), 1, 7), (("a", 0, 10), 3, 7), (("a", 0, 10), 6, 7)]


def test_emitted_on_close() -> None:
    app = App("test")
    windows = app.stream("in", value=int).group_by_key().windowed_by(tumbling(10), emit="close")
    windows.avg().to_stream().to("out")
    assert rows(run(app, ("a", 1, 1), ("a", 2, 2), ("a", 9, 10))) == [(("a", 0, 10), 1.5, 2)]
