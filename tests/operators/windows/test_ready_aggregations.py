"""Ready aggregations of grouped streams: sum, min, max, avg, top_k, collect, count_distinct, first, last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import rows, run

from millstream import App, GroupedStream, col

Make = Callable[[GroupedStream[str, Any]], Any]


def values(make: Make, *inputs: Any, type_: Any = int) -> list[Any]:
    """Returns the output for values of one key, a millisecond apart."""
    app = App("test")
    make(app.stream("in", value=type_).group_by_key()).to_stream().to("out")
    return [value for _, value, _ in rows(run(app, *(("a", value, time) for time, value in enumerate(inputs))))]


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("sum", lambda g: g.sum(), [3, 4, 8, 11]),
        ("min", lambda g: g.min(), [3, 1, 1, 1]),
        ("max", lambda g: g.max(), [3, 3, 4, 4]),
        ("avg", lambda g: g.avg(), [3.0, 2.0, 8 / 3, 2.75]),
        ("top_k", lambda g: g.top_k(2), [[3], [3, 1], [4, 3], [4, 3]]),
        ("collect", lambda g: g.collect(), [[3], [3, 1], [3, 1, 4], [3, 1, 4, 3]]),
        ("collect distinct", lambda g: g.collect(distinct=True), [[3], [3, 1], [3, 1, 4], [3, 1, 4]]),
        ("collect limited", lambda g: g.collect(limit=2), [[3], [3, 1], [3, 1], [3, 1]]),
        ("count_distinct", lambda g: g.count_distinct(), [1, 2, 3, 3]),
        ("first", lambda g: g.first(), [3, 3, 3, 3]),
        ("last", lambda g: g.last(), [3, 1, 4, 3]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_record_updates_the_result(name: str, make: Make, expected: list[Any]) -> None:
    assert values(make, 3, 1, 4, 3) == expected


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda g, of: g.sum(of), id="sum"),
        pytest.param(lambda g, of: g.min(of), id="min"),
        pytest.param(lambda g, of: g.max(of), id="max"),
        pytest.param(lambda g, of: g.avg(of), id="avg"),
        pytest.param(lambda g, of: g.first(of), id="first"),
        pytest.param(lambda g, of: g.last(of), id="last"),
    ],
)
@pytest.mark.parametrize(
    "of",
    [
        pytest.param(lambda row: row["n"], id="of the value"),
        pytest.param(lambda key, row: row["n"], id="of key and value"),
        pytest.param(col("n"), id="an expression"),
    ],
)
def test_of_selects_the_aggregated_value(make: Any, of: Any) -> None:
    assert values(lambda g: make(g, of), {"n": 3}, type_=object) == [3]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda g: g.sum(col("n")), [3, 3, 4], id="sum"),
        pytest.param(lambda g: g.min(col("n")), [3, 3, 1], id="min"),
        pytest.param(lambda g: g.max(col("n")), [3, 3, 3], id="max"),
        pytest.param(lambda g: g.avg(col("n")), [3.0, 3.0, 2.0], id="avg"),
        pytest.param(lambda g: g.top_k(2, col("n")), [[3], [3], [3, 1]], id="top_k"),
        pytest.param(lambda g: g.collect(col("n")), [[3], [3], [3, 1]], id="collect"),
        pytest.param(lambda g: g.count_distinct(col("n")), [1, 1, 2], id="count_distinct"),
        pytest.param(lambda g: g.first(col("n")), [3, 3, 3], id="first"),
        pytest.param(lambda g: g.last(col("n")), [3, 3, 1], id="last"),
    ],
)
def test_a_selected_value_of_none_is_skipped(make: Make, expected: list[Any]) -> None:
    assert values(make, {"n": 3}, {}, {"n": 1}, type_=object) == expected


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().sum(name="sum").to_stream().to("out")
    driver = run(app, (None, 1, 0), ("a", None, 1), ("a", 2, 2))
    assert rows(driver) == [("a", 2, 2)]
    assert driver.dropped == {("sum", "null key"): 1, ("sum", "null value"): 1}


def test_out_of_order_records_are_aggregated_and_the_timestamp_stays_the_greatest() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().last().to_stream().to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 9))) == [("a", 1, 9), ("a", 2, 9), ("a", 3, 9)]


def test_of_equal_values_top_k_retains_the_earlier() -> None:
    inputs = [{"n": 1, "id": "x"}, {"n": 1, "id": "y"}, {"n": 2, "id": "z"}]
    tops = values(lambda g: g.top_k(2, by=lambda row: row["n"]), *inputs, type_=object)
    assert [[row["id"] for row in rows_] for rows_ in tops] == [["x"], ["x", "y"], ["z", "x"]]


def test_strings_can_be_compared() -> None:
    assert values(lambda g: g.max(), "x", "b", type_=str) == ["x", "x"]


def test_a_sum_of_fractions() -> None:
    assert values(lambda g: g.sum(), 0.5, 0.25, type_=float) == [0.5, 0.75]


def test_the_result_can_be_stored() -> None:
    app = App("test")
    app.stream("in").group_by(col("shop")).sum(col("n"), store="totals")
    driver = run(app, ("a", {"shop": "x", "n": 3}, 0), ("b", {"shop": "x", "n": 4}, 1))
    assert driver.store("totals").get("x") == 7
