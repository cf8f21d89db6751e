"""Stream.merge: the records of several streams as one."""

from __future__ import annotations

from tests.operators.harness import rows, run, send

from millstream import App, TestDriver


def test_records_of_both_streams_are_emitted_in_order_of_arrival() -> None:
    app = App("test")
    app.stream("left", value=str).merge(app.stream("right", value=str)).to("out")
    driver = TestDriver(app)
    send(driver, ("a", "x", 9), topic="left")
    send(driver, ("a", "y", 4), topic="right")
    send(driver, ("b", "z", 4), topic="left")
    assert rows(driver) == [("a", "x", 9), ("a", "y", 4), ("b", "z", 4)]


def test_more_than_two_streams_may_be_merged_at_once() -> None:
    app = App("test")
    first, *others = (app.stream(topic, value=str) for topic in ("one", "two", "three"))
    first.merge(*others).to("out")
    driver = TestDriver(app)
    for topic in ("three", "one", "two"):
        send(driver, ("a", topic, 0), topic=topic)
    assert rows(driver) == [("a", "three", 0), ("a", "one", 0), ("a", "two", 0)]


def test_a_stream_merged_with_itself_emits_each_record_once() -> None:
    app = App("test")
    stream = app.stream("in", value=str)
    stream.merge(stream).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("a", "x", 0)]


def test_two_branches_of_one_stream_emit_each_record_twice_in_the_order_of_the_calls() -> None:
    app = App("test")
    stream = app.stream("in", value=str)
    upper = stream.map_values(str.upper, value=str)
    lower = stream.map_values(str.lower, value=str)
    lower.merge(upper).to("out")
    assert rows(run(app, ("a", "Xy", 0))) == [("a", "XY", 0), ("a", "xy", 0)]


def test_null_keys_and_null_values_pass() -> None:
    app = App("test")
    app.stream("in", value=str).merge(app.stream("other", value=str)).to("out")
    driver = run(app, (None, "x", 0), ("a", None, 1))
    assert rows(driver) == [(None, "x", 0), ("a", None, 1)]
    assert driver.dropped == {}


def test_if_one_was_rekeyed_a_grouping_repartitions_both() -> None:
    app = App("test")
    rekeyed = app.stream("left", value=str).select_key(lambda word: word)
    app.stream("right", value=str).merge(rekeyed).group_by_key(name="g").count().to_stream().to("out")
    driver = TestDriver(app)
    send(driver, ("a", "k", 0), topic="left")
    send(driver, ("k", "x", 1), topic="right")
    assert rows(driver) == [("k", 1, 0), ("k", 2, 1)]
    assert len(driver.output("test-g-repartition")) == 2


def test_if_none_was_rekeyed_there_is_no_repartition() -> None:
    app = App("test")
    app.stream("left", value=str).merge(app.stream("right", value=str)).group_by_key().count().to_stream().to("out")
    assert run(app, ("a", "x", 0), topic="left").produced_topics == {"out"}


def test_the_serde_is_known_if_all_streams_have_it() -> None:
    app = App("test")
    app.stream("left", value=int).merge(app.stream("right", value=int)).to("out")
    assert run(app, ("a", 1, 0), topic="left").output("out", value=bytes).read().value == b"\0\0\0\0\0\0\0\1"
