"""App.stream: reads one or more topics, or all whose names match a pattern."""

from __future__ import annotations

import re

from tests.operators.harness import refused, rows, run, send

from millstream import App, TestDriver


def test_a_record_keeps_key_value_and_timestamp() -> None:
    app = App("test")
    app.stream("in", key=str, value=int).to("out")
    assert rows(run(app, ("a", 1, 10), ("b", 2, 20))) == [("a", 1, 10), ("b", 2, 20)]


def test_null_keys_and_null_values_pass() -> None:
    app = App("test")
    app.stream("in", value=str).to("out")
    driver = run(app, (None, "x", 1), ("a", None, 2), (None, None, 3))
    assert rows(driver) == [(None, "x", 1), ("a", None, 2), (None, None, 3)]
    assert driver.dropped == {}


def test_records_are_processed_in_order_of_arrival_not_of_time() -> None:
    app = App("test")
    app.stream("in", value=str).to("out")
    driver = run(app, ("a", "x", 30), ("a", "y", 10), ("a", "z", 10))
    assert rows(driver) == [("a", "x", 30), ("a", "y", 10), ("a", "z", 10)]


def test_several_topics_are_one_stream() -> None:
    app = App("test")
    app.stream("left", "right", value=str).to("out")
    driver = TestDriver(app)
    send(driver, ("a", "x", 1), topic="left")
    send(driver, ("b", "y", 2), topic="right")
    assert rows(driver) == [("a", "x", 1), ("b", "y", 2)]


def test_a_pattern_reads_every_topic_whose_whole_name_matches() -> None:
    app = App("test")
    app.stream(pattern="orders-.*", value=str).to("out")
    driver = TestDriver(app)
    send(driver, ("a", "x", 1), topic="orders-eu")
    send(driver, ("b", "y", 2), topic="orders-us")
    assert rows(driver) == [("a", "x", 1), ("b", "y", 2)]
    refused(lambda: driver.input("old-orders-eu"), "old-orders-eu")


def test_a_pattern_may_be_compiled() -> None:
    app = App("test")
    app.stream(pattern=re.compile(r"t\d"), value=str).to("out")
    assert rows(run(app, ("a", "x", 1), topic="t7")) == [("a", "x", 1)]


def test_a_topic_that_is_read_twice_in_the_same_way_is_one_source() -> None:
    app = App("test")
    app.stream("in", value=str).to("first")
    app.stream("in", value=str).to("second")
    driver = run(app, ("a", "x", 1))
    assert (rows(driver, "first"), rows(driver, "second")) == ([("a", "x", 1)], [("a", "x", 1)])


def test_a_topic_that_is_written_may_be_read_back() -> None:
    app = App("test")
    app.stream("in", value=str).to("middle")
    app.stream("middle", value=str).map_values(str.upper).to("out", value=str)
    assert rows(run(app, ("a", "x", 1))) == [("a", "X", 1)]


def test_a_topic_read_in_two_ways_is_refused() -> None:
    app = App("test")
    app.stream("in", value=str)
    refused(lambda: app.stream("in", value=int), "'in' is already read", "test_stream.py")


def test_a_topic_cannot_be_both_a_stream_and_a_table() -> None:
    app = App("test")
    app.stream("in", value=str)
    refused(lambda: app.table("in", value=str), "to_stream()")


def test_topics_and_a_pattern_together_are_refused() -> None:
    refused(lambda: App("test").stream("in", pattern="in.*"), "either topics or a pattern")


def test_neither_topics_nor_a_pattern_is_refused() -> None:
    refused(lambda: App("test").stream(), "either topics or a pattern")


def test_a_topic_named_twice_is_refused() -> None:
    refused(lambda: App("test").stream("in", "in"), "named twice", hint=False)


def test_an_invalid_pattern_is_refused() -> None:
    refused(lambda: App("test").stream(pattern="orders-("), "not a valid regular expression", hint=False)
