"""Mistakes with windows are refused where they are made, with the user's line and a hint."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused

from millstream import App, GroupedStream, join_window, session, tumbling, until_time_limit
from millstream.errors import DurationError


@pytest.fixture
def grouped() -> GroupedStream[Any, Any]:
    return App("test").stream("in", value=int).group_by_key()


@pytest.mark.parametrize("window", [10, "10s", None, tumbling, join_window(10)])
def test_an_object_that_is_not_a_window_is_refused(grouped: GroupedStream[Any, Any], window: Any) -> None:
    refused(lambda: grouped.windowed_by(window), "expected windows", 'tumbling("1m")')


def test_sessions_need_a_merger(grouped: GroupedStream[Any, Any]) -> None:
    windows = grouped.windowed_by(session(10))
    refused(lambda: windows.aggregate(int, lambda n, total: total + n), "need a merger", "merger(left, right)")


def test_other_windows_have_no_merger(grouped: GroupedStream[Any, Any]) -> None:
    windows = grouped.windowed_by(tumbling(10))
    refused(lambda: windows.aggregate(int, lambda n, total: total, lambda left, right: left), "no others do")


def test_a_merger_of_one_argument_is_refused(grouped: GroupedStream[Any, Any]) -> None:
    windows = grouped.windowed_by(session(10))
    refused(lambda: windows.aggregate(int, lambda n, total: total, lambda left: left), "merger", "(left, right)")


@pytest.mark.parametrize("duration", ["soon", "", "10", "5 s", "1.5s", "10S", True, None, 2.5])
def test_an_invalid_duration_is_refused_with_a_hint(duration: Any) -> None:
    with pytest.raises(DurationError, match="window size: cannot read") as caught:
        tumbling(duration)
    assert "'1h30m'" in str(caught.value.hint)


def test_an_invalid_duration_is_refused_with_the_users_line() -> None:
    refused(lambda: tumbling("soon"), "cannot read 'soon'")


def test_the_error_of_an_invalid_duration_names_the_option() -> None:
    with pytest.raises(DurationError, match="grace: cannot read"):
        tumbling(10, grace="late")
    with pytest.raises(DurationError, match="session gap: cannot read"):
        session("late")
    with pytest.raises(DurationError, match="limit: cannot read"):
        until_time_limit("late")


def test_two_windowed_stores_of_one_name_are_refused(grouped: GroupedStream[Any, Any]) -> None:
    windows = grouped.windowed_by(tumbling(10))
    windows.count(store="counts")
    refused(lambda: windows.count(store="counts"), "store named 'counts'", "made at test_mistakes.py")


def test_a_reducer_of_three_arguments_is_refused(grouped: GroupedStream[Any, Any]) -> None:
    windows = grouped.windowed_by(tumbling(10))
    refused(lambda: windows.reduce(lambda key, agg, value: agg), "reducer", "(agg, value)")


def test_the_error_names_the_line_of_the_mistake() -> None:
    error = refused(lambda: tumbling(-1), "more than zero", hint=False)
    line = test_the_error_names_the_line_of_the_mistake.__code__.co_firstlineno + 1
    assert error.at == f"test_mistakes.py:{line}"
