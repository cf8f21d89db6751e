"""Several aggregate functions in one pass: their results are the fields of one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.operators.harness import rows, run

from millstream import (
    App,
    TopologyError,
    avg,
    col,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    min_,
    session,
    sliding,
    sum_,
    top_k,
    tumbling,
)

ALL: dict[str, Any] = {
    "n": count(),
    "known": count(col("x")),
    "total": sum_(col("x")),
    "least": min_(col("x")),
    "most": max_(lambda v: v["x"]),
    "mean": avg(lambda k, v: v["x"]),
    "one": first(col("x")),
    "end": last(col("x")),
    "best": top_k(2, col("x")),
    "list": collect(col("x"), limit=2),
    "kinds": count_distinct(col("x")),
}


def results(app: App, *records: tuple[object, ...]) -> list[Any]:
    return [value for _, value, _ in rows(run(app, *records))]


def test_every_aggregate_function() -> None:
    app = App("test")
    app.stream("in", value=dict).group_by_key().aggregate(**ALL, store="all").to_stream().to("out")
    inputs = [({"x": 3}), ({"x": None}), ({"x": 1}), ({"x": 3})]
    outputs = results(app, *(("a", value, time) for time, value in enumerate(inputs)))
    assert outputs[0] == {
        "n": 1,
        "known": 1,
        "total": 3,
        "least": 3,
        "most": 3,
        "mean": 3.0,
        "one": 3,
        "end": 3,
        "best": [3],
        "list": [3],
        "kinds": 1,
    }
    assert outputs[-1] == {
        "n": 4,
        "known": 3,
        "total": 7,
        "least": 1,
        "most": 3,
        "mean": 7 / 3,
        "one": 3,
        "end": 3,
        "best": [3, 3],
        "list": [3, 1],
        "kinds": 2,
    }


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(tumbling("10ms"), [(1, 3), (2, 7)], id="tumbling"),
        pytest.param(session("10ms"), [(1, 3), (2, 7)], id="session"),
        pytest.param(sliding("10ms"), [(1, 3), (2, 7)], id="sliding"),
    ],
)
def test_in_windows(window: Any, expected: list[tuple[int, int]]) -> None:
    app = App("test")
    windows = app.stream("in", value=dict).group_by_key().windowed_by(window)
    windows.aggregate(n=count(), total=sum_(col("x"))).to_stream(lambda key, _v: key.key).to("out")
    outputs = [value for value in results(app, ("a", {"x": 3}, 0), ("a", {"x": 4}, 1)) if value is not None]
    assert {(output["n"], output["total"]) for output in outputs} >= set(expected)


def test_merged_sessions_merge_their_aggregates() -> None:
    app = App("test")
    windows = app.stream("in", value=dict).group_by_key().windowed_by(session("10ms", grace="1s"))
    windows.aggregate(n=count(), mean=avg(col("x")), one=first(col("x"))).to_stream(lambda k, _v: k.key).to("out")
    outputs = results(app, ("a", {"x": 3}, 0), ("a", {"x": 5}, 20), ("a", {"x": 10}, 10))
    assert outputs[-1] == {"n": 3, "mean": 6.0, "one": 3}


def test_of_a_table_old_values_are_subtracted() -> None:
    app = App("test")
    grouped = app.table("in", value=dict).group_by(lambda v: ("all", v), value=dict)
    grouped.aggregate(n=count(), total=sum_(col("x")), mean=avg(col("x")), all=collect(col("x"))).to_stream().to("out")
    outputs = results(app, ("a", {"x": 3}, 0), ("b", {"x": 5}, 1), ("a", {"x": 7}, 2), ("b", None, 3))
    assert outputs[-1] == {"n": 1, "total": 7, "mean": 7.0, "all": [7]}


@pytest.mark.parametrize(
    "call", [min_(col("x")), max_(), top_k(2), first(), collect(limit=2), count_distinct()], ids=str
)
def test_of_a_table_a_function_that_cannot_subtract_is_refused(call: Any) -> None:
    grouped = App("test").table("in", value=dict).group_by(lambda v: ("all", v), value=dict)
    with pytest.raises(TopologyError, match="cannot subtract an old value"):
        grouped.aggregate(x=call)


@dataclass
class Statistics:
    n: int
    mean: float | None


def test_the_record_is_converted_to_a_type() -> None:
    app = App("test")
    table = app.stream("in", value=dict).group_by_key().aggregate(n=count(), mean=avg(col("x")), value=Statistics)
    table.map_values(lambda s: s.mean, value=float).to_stream().to("out")
    assert results(app, ("a", {"x": 3}, 0), ("a", {"x": 4}, 1)) == [3.0, 3.5]


def test_fields_whose_names_are_options_are_given_in_a_dict() -> None:
    app = App("test")
    app.stream("in", value=dict).group_by_key().aggregate({"name": count(), "value": sum_(col("x"))}).to_stream().to(
        "out"
    )
    assert results(app, ("a", {"x": 3}, 0)) == [{"name": 1, "value": 3}]


def test_errors_name_the_line_of_the_mistake() -> None:
    grouped = App("test").stream("in", value=dict).group_by_key()
    with pytest.raises(TopologyError, match=r"n=3 is neither an option nor an aggregate function") as caught:
        grouped.aggregate(n=3)  # type: ignore[call-overload]
    assert "test_several_aggregates.py" in str(caught.value)
    with pytest.raises(TopologyError, match=r"did you mean 'store'"):
        grouped.aggregate(stor="x", n=count())  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"unknown option 'stor'"):
        grouped.aggregate(dict, lambda _v, a: a, stor="x")  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="nothing to aggregate"):
        grouped.aggregate()
    with pytest.raises(TopologyError, match="k must be"):
        top_k(0)
    assert App("test").plan().nodes == ()
