"""Stream.flat_map: replaces each record by zero or more records."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, return-value"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError


def test_every_pair_is_a_record_in_the_order_returned() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map(lambda key, text: [(word, key) for word in text.split()], value=str).to("out")
    assert rows(run(app, ("a", "y x", 5))) == [("y", "a", 5), ("x", "a", 5)]


def test_no_pair_is_no_record_and_not_a_drop() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map(lambda text: [], value=str).to("out")
    driver = run(app, ("a", "x", 5))
    assert (rows(driver), driver.dropped) == ([], {})


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).flat_map(lambda key, word: [(word, key), (key, word)], value=str).to("out")
    driver = run(app, (None, "x", 0), ("a", None, 1))
    assert rows(driver) == [("x", None, 0), (None, "x", 0), (None, "a", 1), ("a", None, 1)]


def test_each_record_has_the_timestamp_of_its_input_record() -> None:
    app = App("test")
    app.stream("in", value=int).flat_map(lambda key, n: [(key, n), (key, n + 1)], value=int).to("out")
    assert rows(run(app, ("a", 1, 9), ("a", 5, 4))) == [("a", 1, 9), ("a", 2, 9), ("a", 5, 4), ("a", 6, 4)]


def test_a_generator_is_accepted() -> None:
    app = App("test")
    app.stream("in", value=int).flat_map(lambda n: ((str(i), i) for i in range(n)), value=int).to("out")
    assert rows(run(app, ("a", 2, 0))) == [("0", 0, 0), ("1", 1, 0)]


def test_a_generator_that_fails_half_way_emits_nothing() -> None:
    app = App("test", processing_exception_handler="continue")
    numbers = app.stream("in", value=int)
    numbers.flat_map(lambda n: ((str(i), 1 // (n - i)) for i in range(3)), value=int, name="f").to("out")
    driver = run(app, ("a", 2, 0))
    assert rows(driver) == []
    assert driver.dropped == {("f", "processing error"): 1}


def test_a_later_grouping_repartitions() -> None:
    app = App("test")
    app.stream("in", value=int).flat_map(lambda key, n: [(key, n)], value=int).group_by_key(name="g").count()
    assert run(app, ("a", 1, 0)).produced_topics == {"test-g-repartition"}


def test_a_result_that_is_not_a_list_of_pairs_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=int).flat_map(lambda n: [n]).to("out")
    with pytest.raises(MillstreamError, match=r"test_flat_map\.py:\d+ in <lambda>"):
        run(app, ("a", 1, 0))


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").flat_map(lambda a, b, c: []), "flat_map", "3 arguments")
