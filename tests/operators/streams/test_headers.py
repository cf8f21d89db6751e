"""Headers pass through stateless operators with their records, in order, with duplicates and nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import run

from millstream import App, Stream

HEADERS = [("trace", "1"), ("empty", None), ("trace", "2")]
KEPT = (("trace", b"1"), ("empty", None), ("trace", b"2"))

OPERATORS: dict[str, Callable[[Stream[Any, Any]], Stream[Any, Any]]] = {
    "filter": lambda s: s.filter(lambda v: True),
    "filter_not": lambda s: s.filter_not(lambda v: False),
    "select_key": lambda s: s.select_key(lambda v: v),
    "map": lambda s: s.map(lambda k, v: (k, v), value=str),
    "map_values": lambda s: s.map_values(lambda v: v, value=str),
    "flat_map": lambda s: s.flat_map(lambda k, v: [(k, v), (k, v)], value=str),
    "flat_map_values": lambda s: s.flat_map_values(lambda v: [v, v], value=str),
    "peek": lambda s: s.peek(lambda v: None),
    "split": lambda s: s.split({"all": lambda v: True})["all"],
    "merge": lambda s: s.merge(s),
    "repartition": lambda s: s.repartition(),
    "table": lambda s: s.to_table().to_stream(),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_headers_stay_with_the_record(operator: str) -> None:
    app = App("test")
    OPERATORS[operator](app.stream("in", value=str)).to("out")
    records = run(app, ("a", "x", 0, HEADERS)).output("out").read_all()
    assert {record.headers for record in records} == {KEPT}


def test_a_record_without_headers_does_not_get_those_of_another() -> None:
    app = App("test")
    app.stream("in", value=str).to("out")
    driver = run(app, ("a", "x", 0, HEADERS), ("a", "y", 1))
    assert [record.headers for record in driver.output("out").read_all()] == [KEPT, ()]


def test_an_aggregate_has_the_headers_of_the_record_that_updated_it() -> None:
    app = App("test")
    app.stream("in", value=str).group_by_key().count().to_stream().to("out")
    driver = run(app, ("a", "x", 0, {"n": "1"}), ("a", "y", 1, {"n": "2"}))
    assert [record.headers for record in driver.output("out").read_all()] == [(("n", b"1"),), (("n", b"2"),)]
