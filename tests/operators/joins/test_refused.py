"""Invalid joins are refused where they are defined, with the user's line and a hint."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import dashed

from millstream import App, TopologyError, join_window


def sides() -> dict[str, Any]:
    app = App("joins")
    return {
        "stream": app.stream("left", value=str),
        "other": app.stream("right", value=str),
        "table": app.table("table", value=str),
        "table 2": app.table("table2", value=str),
        "global": app.global_table("global", value=str),
    }


@pytest.mark.parametrize("window", [None, 5, "5s"])
def test_two_streams_need_a_window(window: Any) -> None:
    inputs = sides()
    with pytest.raises(
        TopologyError,
        match=r"test_refused.py:\d+: join: a join of two streams needs a window.*\n  hint: add join_window",
    ):
        inputs["stream"].join(inputs["other"], dashed, window)


@pytest.mark.parametrize("other", ["table", "global"])
def test_only_two_streams_take_a_window(other: str) -> None:
    inputs = sides()
    with pytest.raises(TopologyError, match="only a join of two streams takes a window"):
        inputs["stream"].join(inputs[other], dashed, join_window(5))


@pytest.mark.parametrize("other", ["table", "global"])
def test_outer_joins_of_a_stream_are_with_streams_only(other: str) -> None:
    inputs = sides()
    with pytest.raises(TopologyError, match=r"no outer join\n  hint: use left_join"):
        inputs["stream"].outer_join(inputs[other], dashed)


@pytest.mark.parametrize("other", [None, "right", 5])
def test_a_stream_is_joined_with_a_stream_or_a_table(other: Any) -> None:
    with pytest.raises(TopologyError, match="expected a stream, a table or a global table"):
        sides()["stream"].join(other, dashed)


@pytest.mark.parametrize("other", ["stream", "global"])
def test_a_table_is_joined_with_a_table(other: str) -> None:
    inputs = sides()
    with pytest.raises(TopologyError, match="join: expected a table, got"):
        inputs["table"].join(inputs[other], dashed)


@pytest.mark.parametrize(
    ("other", "option", "hint"),
    [("other", "nmae", "name"), ("table", "grase", "grace"), ("global", "onn", "on"), ("table", "on", "it takes")],
)
def test_an_unknown_option_is_refused_with_a_suggestion(other: str, option: str, hint: str) -> None:
    inputs = sides()
    window = join_window(5) if other == "other" else None
    with pytest.raises(TopologyError, match=rf"join: unknown option '{option}'\n  hint: .*{hint}"):
        inputs["stream"].join(inputs[other], dashed, window, **{option: 1})


@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
def test_sides_of_different_applications_are_refused(how: str) -> None:
    with pytest.raises(TopologyError, match="application"):
        getattr(sides()["table"], how)(sides()["table 2"], dashed)
    with pytest.raises(TopologyError, match="application"):
        getattr(sides()["stream"], how)(sides()["other"], dashed, join_window(5))


@pytest.mark.parametrize("window", [{"before": -6, "after": 5}, {"before": 5, "after": -6}])
def test_a_window_that_ends_before_it_starts_is_refused(window: dict[str, Any]) -> None:
    with pytest.raises(TopologyError, match="join window ends before it starts"):
        join_window(**window)


def test_a_negative_difference_grace_or_idle_is_refused() -> None:
    with pytest.raises(TopologyError, match="must not be negative"):
        join_window(-1)
    with pytest.raises(TopologyError, match="grace must not be negative"):
        join_window(1, grace=-1)
    with pytest.raises(TopologyError, match="idle must be more than zero"):
        join_window(1, idle=0)
