"""``forward``: to all downstream operators, or to one by name."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver
from millstream.errors import ProcessingError


class Route(Processor[Any, str, Any, str]):
    """Forwards to the operator named by the key; to all if the key is null."""

    def process(self, record: Record[Any, str]) -> None:
        self.context.forward(record, to=record.key)


def routing(**config: Any) -> App:
    app = App("processors", **config)
    routed = app.stream("in", value=str).process(Route, name="route", key=str, value=str)
    routed.map_values(lambda v: f"loud {v}", name="loud", value=str).to("out")
    routed.map_values(lambda v: f"soft {v}", name="soft", value=str).to("out")
    routed.to("all", name="everything")
    return app


def test_without_a_name_all_children_get_the_record_in_the_order_of_their_definition() -> None:
    with TestDriver(routing()) as driver:
        driver.input("in").pipe("x")
        assert driver.output("out").read_values() == ["loud x", "soft x"]
        assert driver.output("all").read_values() == ["x"]


def test_with_a_name_only_that_child_gets_it() -> None:
    with TestDriver(routing()) as driver:
        driver.input("in").pipe("soft", "x")
        driver.input("in").pipe("everything", "y")
        assert driver.output("out").read_values() == ["soft x"]
        assert driver.output("all").read_values() == ["y"]


def test_an_unknown_name_fails_with_a_suggestion() -> None:
    with (
        TestDriver(routing()) as driver,
        pytest.raises(ProcessingError, match=r"no operator 'lout' below 'route'\n  hint: did you mean 'loud'"),
    ):
        driver.input("in").pipe("lout", "x")


def test_an_operator_that_is_not_a_direct_child_is_unknown() -> None:
    with TestDriver(routing()) as driver, pytest.raises(ProcessingError, match="no operator 'out-sink'"):
        driver.input("in").pipe("out-sink", "x")


def test_without_children_forward_to_all_does_nothing_and_by_name_fails() -> None:
    app = App("processors")
    app.stream("in", value=str).process(Route, name="route")
    with TestDriver(app) as driver:
        driver.input("in").pipe("x")
        with pytest.raises(ProcessingError, match="the operators below it: none"):
            driver.input("in").pipe("anything", "x")


def test_a_negative_timestamp_is_refused() -> None:
    class Back(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_timestamp(-1))

    app = App("processors")
    app.stream("in").process(Back).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"forward: -1 \(int\) is not a timestamp"):
        driver.input("in").pipe("x")


@pytest.mark.parametrize("forwarded", [None, "text", ("k", "v")])
def test_forwarding_an_object_that_is_not_a_record_is_refused(forwarded: Any) -> None:
    class Wrong(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(forwarded)

    app = App("processors")
    app.stream("in").process(Wrong).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="Record"):
        driver.input("in").pipe("x")


def test_an_error_in_a_downstream_operator_is_attributed_to_that_operator() -> None:
    app = App("processors")
    routed = app.stream("in", value=str).process(Route, name="route", key=str, value=str)
    routed.map_values(lambda v: 1 // len(v), name="below").to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="failed in operator 'below'"):
        driver.input("in").pipe("")
