"""Stream.peek: calls a function for each record, and passes the record on."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError


def test_each_record_is_passed_to_the_function_and_passes_unchanged() -> None:
    seen: list[object] = []
    app = App("test")
    app.stream("in", value=int).peek(seen.append).to("out")
    assert rows(run(app, ("a", 1, 5), ("a", 2, 3))) == [("a", 1, 5), ("a", 2, 3)]
    assert seen == [1, 2]


def test_the_function_may_take_the_key() -> None:
    seen: list[object] = []
    app = App("test")
    app.stream("in", value=int).peek(lambda key, n: seen.append((key, n))).to("out")
    run(app, ("a", 1, 5))
    assert seen == [("a", 1)]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    seen: list[object] = []
    app = App("test")
    app.stream("in", value=int).peek(lambda key, n: seen.append((key, n))).to("out")
    assert rows(run(app, (None, 1, 0), ("a", None, 1))) == [(None, 1, 0), ("a", None, 1)]
    assert seen == [(None, 1), ("a", None)]


def test_the_result_of_the_function_is_ignored() -> None:
    app = App("test")
    app.stream("in", value=int).peek(lambda n: False).to("out")
    assert rows(run(app, ("a", 1, 0))) == [("a", 1, 0)]


def test_the_function_is_called_before_the_downstream_operators() -> None:
    seen: list[str] = []
    app = App("test")
    app.stream("in", value=str).peek(lambda v: seen.append(f"1:{v}")).peek(lambda v: seen.append(f"2:{v}"))
    run(app, ("a", "x", 9), ("a", "y", 4))
    assert seen == ["1:x", "2:x", "1:y", "2:y"]


def test_a_function_that_raises_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=int).peek(lambda n: 1 / n).to("out")
    with pytest.raises(MillstreamError, match=r"test_peek\.py:\d+ in <lambda>"):
        run(app, ("a", 0, 0))


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").peek(lambda a, b, c: None), "peek", "3 arguments")
