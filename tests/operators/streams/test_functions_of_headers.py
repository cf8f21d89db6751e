"""Functions read the headers of a record by a parameter named ``headers``, expressions by ``header(name)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import run

from millstream import App, Stream, TestDriver, array, functions, header, struct, timestamp, value
from millstream.core.records import Headers
from millstream.errors import ExpressionError

RECORD = ("a", "x", 7, [("trace", b"1"), ("other", b"9"), ("trace", b"2")])


def last(headers: Headers) -> str:
    return (dict(headers)["trace"] or b"").decode()


def named(_value: str, *, headers: Headers) -> str:
    return last(headers)


OPERATORS: dict[str, tuple[Callable[[Stream[Any, Any]], Any], list[tuple[Any, Any]]]] = {
    "filter": (lambda s: s.filter(lambda v, headers: last(headers) == "2"), [("a", "x")]),
    "filter, of key and value": (lambda s: s.filter(lambda k, v, headers: last(headers) == k), []),
    "filter_not": (lambda s: s.filter_not(lambda v, headers: last(headers) == "2"), []),
    "map_values": (lambda s: s.map_values(lambda v, headers: v + last(headers), value=str), [("a", "x2")]),
    "map_values, by keyword": (lambda s: s.map_values(named, value=str), [("a", "2")]),
    "select_key": (lambda s: s.select_key(lambda k, v, headers: k + last(headers)), [("a2", "x")]),
    "map": (lambda s: s.map(lambda k, v, headers: (k, last(headers)), value=str), [("a", "2")]),
    "flat_map": (lambda s: s.flat_map(lambda v, headers: [(v, last(headers))] * 2, value=str), [("x", "2")] * 2),
    "flat_map_values": (lambda s: s.flat_map_values(lambda v, headers: [last(headers)], value=str), [("a", "2")]),
    "split": (lambda s: s.split({"b": lambda v, headers: last(headers) == "2"})["b"], [("a", "x")]),
    "expression in filter": (lambda s: s.filter(header("trace") == b"2"), [("a", "x")]),
    "expression in filter_not": (lambda s: s.filter_not(header("trace").is_null()), [("a", "x")]),
    "expression in map_values": (
        lambda s: s.map_values(functions.from_bytes(header("trace"), "utf8") + value(), value=str),
        [("a", "2x")],
    ),
    "expression in select_key": (
        lambda s: s.select_key(functions.from_bytes(header("trace"), "utf8"), key=str),
        [("2", "x")],
    ),
    "expression in map": (lambda s: s.map(array(value(), value()), value=str), [("x", "x")]),
    "expression in split": (lambda s: s.split({"b": header("none").is_null()})["b"], [("a", "x")]),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_pass_headers_to_functions_and_expressions(operator: str) -> None:
    make, expected = OPERATORS[operator]
    app = App("test")
    make(app.stream("in", key=str, value=str)).to("out", key=str, value=str)
    assert run(app, RECORD).output("out").read_pairs() == expected


def test_actions_and_names_of_topics_read_headers() -> None:
    seen = []
    app = App("test")
    stream = app.stream("in", key=str, value=str)
    stream.peek(lambda v, headers: seen.append(("peek", v, last(headers)))).foreach(
        lambda k, v, headers: seen.append(("foreach", k, last(headers)))
    )
    stream.to(lambda v, headers: f"topic-{last(headers)}")
    driver = run(app, RECORD)
    assert seen == [("peek", "x", "2"), ("foreach", "a", "2")]
    assert driver.output("topic-2").read_values() == ["x"]


def test_a_record_without_headers_passes_empty_headers() -> None:
    app = App("test")
    app.stream("in", value=str).map_values(lambda v, headers: len(headers), value=int).to("out")
    app.stream("in", value=str).map_values(struct(trace=header("trace").is_null(), at=timestamp())).to("more")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("a", "x"), ("b", "y")])
        assert driver.output("out").read_values() == [0, 0]
        assert [row["trace"] for row in driver.output("more").read_values()] == [True, True]


def test_an_aggregator_has_no_headers() -> None:
    grouped = App("test").stream("in", key=str, value=dict).group_by_key()
    with pytest.raises(ExpressionError, match="headers"):
        grouped.sum(header("trace"))


def test_an_error_names_the_function_that_reads_headers() -> None:
    app = App("test", config={"processing.exception.handler": "continue"})
    app.stream("in", key=str, value=str).map_values(lambda v, headers: headers[9], value=str).to("out")
    driver = run(app, RECORD)
    assert driver.output("out").is_empty
