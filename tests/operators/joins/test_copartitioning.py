"""Sides of a join whose key was changed are repartitioned, so that equal keys are in one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.joins.script import dashed, on_left, on_right, play, run

from millstream import App, Processor, Record, Stream, TestDriver, TopologyError, join_window


def first(value: str) -> str:
    return value[0]


def test_only_the_side_whose_key_was_changed_is_repartitioned() -> None:
    app = App("joins")
    left = app.stream("left", value=str).select_key(first, key=str)
    left.join(app.stream("right", value=str), dashed, join_window(10), name="near").to("out")
    with TestDriver(app) as driver:
        assert play(driver, on_right("r", 0, key="A"), on_left("A1", 5), keys=True) == {2: "A:A1-r@5"}
        assert driver.produced_topics == {"out", "joins-near-left-repartition"}


def test_both_sides_are_repartitioned_if_both_keys_were_changed() -> None:
    app = App("joins")
    left = app.stream("left", value=str).select_key(first, key=str)
    right = app.stream("right", value=str).select_key(first, key=str)
    left.join(right, dashed, join_window(10), name="near").to("out")
    with TestDriver(app) as driver:
        assert play(driver, on_right("Ar", 0), on_left("Al", 5), keys=True) == {2: "A:Al-Ar@5"}
        assert driver.produced_topics == {"out", "joins-near-left-repartition", "joins-near-right-repartition"}


def test_a_stream_joined_with_a_table_is_repartitioned_too() -> None:
    app = App("joins")
    left = app.stream("left", value=str).select_key(first, key=str)
    left.join(app.table("right", value=str), dashed, name="lookup").to("out")
    with TestDriver(app) as driver:
        assert play(driver, on_right("r", 0, key="A"), on_left("A1", 5), keys=True) == {2: "A:A1-r@5"}
        assert driver.produced_topics == {"out", "joins-lookup-repartition"}


def test_a_stream_joined_with_a_global_table_is_not_repartitioned() -> None:
    app = App("joins")
    left = app.stream("left", value=str).select_key(first, key=str)
    left.join(app.global_table("right", value=str), dashed).to("out")
    with TestDriver(app) as driver:
        assert play(driver, on_right("r", 0, key="A"), on_left("A1", 5), keys=True) == {2: "A:A1-r@5"}
        assert driver.produced_topics == {"out"}


class PassOn(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


REKEYING: dict[str, Callable[[Stream[str, str]], Stream[Any, Any]]] = {
    "select_key": lambda s: s.select_key(first, key=str),
    "map": lambda s: s.map(lambda k, v: (k, v), key=str, value=str),
    "flat_map": lambda s: s.flat_map(lambda k, v: [(k, v)], key=str, value=str),
    "process": lambda s: s.process(PassOn, key=str, value=str),
    "a merge with a rekeyed stream": lambda s: s.merge(s.select_key(first, key=str)),
    "select_key before operators that keep the key": lambda s: (
        s.select_key(first, key=str).filter(lambda v: v).map_values(str.upper, value=str)
    ),
}
KEEPING: dict[str, Callable[[Stream[str, str]], Stream[Any, Any]]] = {
    "map_values": lambda s: s.map_values(str.upper, value=str),
    "flat_map_values": lambda s: s.flat_map_values(lambda v: [v], value=str),
    "filter": lambda s: s.filter(lambda v: v),
    "peek": lambda s: s.peek(lambda v: v),
    "process_values": lambda s: s.process_values(PassOn, value=str),  # type: ignore[arg-type]
    "split": lambda s: s.split({"all": lambda v: True})["all"],
    "an explicit repartition": lambda s: s.select_key(first, key=str).repartition(name="own"),
}


def internal_topics(change: Callable[[Stream[str, str]], Stream[Any, Any]]) -> set[str]:
    app = App("joins")
    left = change(app.stream("left", value=str))
    left.join(app.table("right", value=str), dashed, name="lookup").to("out")
    with TestDriver(app) as driver:
        driver.input("left").pipe("k", "A")
        return driver.produced_topics - {"out"}


@pytest.mark.parametrize("operator", REKEYING)
def test_operators_that_may_change_the_key_cause_a_repartition(operator: str) -> None:
    assert internal_topics(REKEYING[operator]) == {"joins-lookup-repartition"}


@pytest.mark.parametrize("operator", KEEPING)
def test_operators_that_keep_the_key_cause_no_repartition(operator: str) -> None:
    assert internal_topics(KEEPING[operator]) <= {"joins-own-repartition"}


def test_null_keys_are_dropped_before_the_repartition_topic_of_an_inner_join() -> None:
    app = App("joins")
    left: Stream[Any, str] = app.stream("left", value=str).select_key(lambda v: None, key=str)
    left.join(app.table("right", value=str), dashed, name="lookup").to("out")
    with TestDriver(app) as driver:
        assert play(driver, on_left("A", 0)) == {}
        assert driver.produced_topics == set()
        assert sum(driver.dropped.values()) == 1


def test_null_keys_go_through_the_repartition_topic_of_a_left_join() -> None:
    app = App("joins")
    left: Stream[Any, str] = app.stream("left", value=str).select_key(lambda v: None, key=str)
    left.left_join(app.table("right", value=str), dashed, name="lookup").to("out")
    assert run(app, on_left("A", 0), keys=True) == {1: "null:A-null@0"}


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_rekeyed_records_find_their_partners_for_any_number_of_partitions(partitions: int) -> None:
    app = App("joins")
    left = app.stream("left", value=str).select_key(first, key=str)
    left.join(app.stream("right", value=str), dashed, join_window(10)).to("out")
    with TestDriver(app, partitions=partitions) as driver:
        for letter in "abcdefgh":
            driver.input("right").pipe(letter, "r", timestamp=0)
            driver.input("left").pipe("any", f"{letter}1", timestamp=1)
        assert driver.output("out").read_table() == {letter: f"{letter}1-r" for letter in "abcdefgh"}


@pytest.mark.parametrize("partitions", [1, 3])
def test_foreign_keys_find_their_rows_for_any_number_of_partitions(partitions: int) -> None:
    app = App("joins")
    books, authors = app.table("left", value=str), app.table("right", value=str)
    books.join(authors, dashed, on=first).to_stream().to("out")
    with TestDriver(app, partitions=partitions) as driver:
        for letter in "abcdefgh":
            driver.input("right").pipe(letter, "r", timestamp=0)
            driver.input("left").pipe(f"book {letter}", f"{letter}1", timestamp=1)
        assert driver.output("out").read_table() == {f"book {letter}": f"{letter}1-r" for letter in "abcdefgh"}


def test_sides_with_different_numbers_of_partitions_are_refused() -> None:
    app = App("joins")
    left = app.stream("left", value=str).repartition(name="two", partitions=2)
    right = app.stream("right", value=str).repartition(name="three", partitions=3)

    def joined(left: Stream[Any, Any], right: Stream[Any, Any]) -> App:
        left.join(right, dashed, join_window(10)).to("out")
        return app

    with pytest.raises(TopologyError, match="partitions"):
        TestDriver(joined(left, right))
