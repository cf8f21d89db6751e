"""Names of topics, operators, stores and applications: unique, and refused if illegal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError, TestDriver
from millstream.errors import ConfigError, InvalidNameError


def test_a_duplicate_name_of_an_operator_is_refused_with_the_line_of_the_first() -> None:
    stream = App("test").stream("in", value=int)
    stream.filter(lambda n: n > 1, name="large")
    refused(lambda: stream.map_values(lambda n: n, name="large"), "operator named 'large', made at test_names.py")


def test_a_duplicate_name_of_a_store_is_refused_with_the_line_of_the_first() -> None:
    grouped = App("test").stream("in", value=int).group_by_key()
    grouped.count(store="counts")
    refused(lambda: grouped.count(store="counts"), "store named 'counts', made at test_names.py")


def test_a_refused_operator_is_not_in_the_topology() -> None:
    app = App("test")
    grouped = app.stream("in", value=int).group_by_key()
    grouped.count(store="counts").to_stream().to("out")
    refused(lambda: grouped.count(store="counts"), "'counts'")
    driver = run(app, ("a", 1, 0), ("a", 1, 1))
    assert rows(driver) == [("a", 1, 0), ("a", 2, 1)]


def test_a_name_may_be_used_again_after_its_first_use_was_refused() -> None:
    grouped = App("test").stream("in", value=int).group_by_key()
    grouped.count(store="counts")
    refused(lambda: grouped.count(store="counts", name="counter"), "'counts'")
    grouped.count(store="more-counts", name="counter")


@pytest.mark.parametrize("name", ["", "two words", "a/b", "..", "x" * 250, "naïve", 5])
def test_a_topic_name_that_kafka_refuses_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(InvalidNameError, match="topic name") as caught:
        App("test").stream(name)
    assert "letters, digits" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("topic", lambda stream: stream.to("out topic")),
        ("operator", lambda stream: stream.filter(lambda v: True, name="my filter")),
        ("store", lambda stream: stream.group_by_key().count(store="my counts")),
        ("branch", lambda stream: stream.split({"my branch": lambda v: True})),
        ("repartition topic", lambda stream: stream.repartition(name="my topic")),
        ("application", lambda stream: App("my app")),
    ],
)
def test_the_error_for_an_invalid_name_contains_the_kind_of_object(what: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidNameError, match=f"{what} name 'my|{what} name 'out"):
        call(App("test").stream("in"))


def test_an_invalid_name_is_refused_with_the_users_line() -> None:
    refused(lambda: App("test").stream("in").to("out topic"), "topic name", "letters, digits")


def test_an_invalid_name_of_a_grouping_is_refused_by_the_grouping() -> None:
    with pytest.raises(InvalidNameError):
        App("test").stream("in").group_by_key(name="my group")


def test_a_misspelt_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"topology\.optimization"):
        App("test", topology_optimisation="all")  # type: ignore[call-arg]


def test_a_misspelt_topic_of_a_test_is_refused_with_a_suggestion() -> None:
    app = App("test")
    app.stream("orders").to("totals")
    driver = TestDriver(app)
    refused(lambda: driver.input("order"), "did you mean 'orders'?")
    refused(lambda: driver.output("total"), "did you mean 'totals'?")


def test_a_misspelt_store_of_a_test_is_refused_with_a_suggestion() -> None:
    app = App("test")
    app.stream("in").group_by_key().count(store="counts")
    with pytest.raises(MillstreamError, match=r"did you mean 'counts'\?"):
        run(app).store("count")
