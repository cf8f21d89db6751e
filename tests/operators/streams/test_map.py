"""Stream.map: sets a new key and a new value for each record."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, return-value"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError


def test_key_and_value_are_those_of_the_pair() -> None:
    app = App("test")
    app.stream("in", value=int).map(lambda key, n: (key.upper(), n * 2), key=str, value=int).to("out")
    assert rows(run(app, ("a", 1, 5))) == [("A", 2, 5)]


def test_the_function_may_take_the_value_only() -> None:
    app = App("test")
    app.stream("in", value=str).map(lambda word: (word, len(word)), key=str, value=int).to("out")
    assert rows(run(app, ("a", "xyz", 5))) == [("xyz", 3, 5)]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).map(lambda key, word: (word, key), key=str, value=str).to("out")
    assert rows(run(app, (None, "x", 0), ("a", None, 1))) == [("x", None, 0), (None, "a", 1)]


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).map(lambda key, n: (key, n), value=int).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 2, 4), ("a", 3, 4))) == [("a", 1, 9), ("a", 2, 4), ("a", 3, 4)]


def test_a_later_grouping_repartitions_even_if_the_key_is_the_same() -> None:
    app = App("test")
    app.stream("in", value=int).map(lambda key, n: (key, n), value=int).group_by_key(name="same").count()
    assert run(app, ("a", 1, 0)).produced_topics == {"test-same-repartition"}


def test_a_list_of_two_is_also_a_pair() -> None:
    app = App("test")
    app.stream("in", value=str).map(lambda word: [word, word], value=str).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("x", "x", 0)]


def test_a_result_that_is_not_a_pair_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=int).map(lambda n: n).to("out")
    with pytest.raises(MillstreamError, match=r"test_map\.py:\d+ in <lambda>"):
        run(app, ("a", 1, 0))


def test_a_function_of_three_arguments_is_refused() -> None:
    stream = App("test").stream("in")
    refused(lambda: stream.map(lambda a, b, c: (a, b)), "map", "3 arguments", "(value) or (key, value)")
