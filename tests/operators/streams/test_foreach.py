"""Stream.foreach: calls a function for each record, and ends the stream."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, run

from millstream import App, MillstreamError


def test_each_record_is_passed_to_the_function_in_order_of_arrival() -> None:
    seen: list[object] = []
    app = App("test")
    app.stream("in", value=int).foreach(seen.append)
    run(app, ("a", 1, 9), ("a", 2, 4), ("b", 3, 4))
    assert seen == [1, 2, 3]


def test_the_function_may_take_the_key() -> None:
    seen: dict[str, int] = {}
    app = App("test")
    app.stream("in", value=int).foreach(lambda key, n: seen.update({key: n}))
    run(app, ("a", 1, 5), ("b", 2, 5))
    assert seen == {"a": 1, "b": 2}


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    seen: list[object] = []
    app = App("test")
    app.stream("in", value=int).foreach(lambda key, n: seen.append((key, n)))
    run(app, (None, 1, 0), ("a", None, 1))
    assert seen == [(None, 1), ("a", None)]


def test_the_stream_ends() -> None:
    assert App("test").stream("in").foreach(lambda v: None) is None


def test_a_function_that_raises_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=int).foreach(lambda n: 1 / n)
    with pytest.raises(MillstreamError, match=r"test_foreach\.py:\d+ in <lambda>"):
        run(app, ("a", 0, 0))


def test_a_function_of_no_argument_is_refused() -> None:
    refused(lambda: App("test").stream("in").foreach(lambda: None), "foreach", "0 arguments")
