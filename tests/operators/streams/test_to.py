"""Stream.to: writes each record to a topic."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, MillstreamError, Processor, Record, col, session, tumbling
from millstream.core.partitioning import partition_for
from millstream.serde import session_windowed, time_windowed


class Partition(Processor[str, str, str, int]):
    """Forwards the partition of each record as the value."""

    def process(self, record: Record[str, str]) -> None:
        at = self.context.record_metadata
        assert at is not None
        self.context.forward(record.with_value(at.partition))


def test_records_are_written_in_order_with_their_timestamps_and_nulls() -> None:
    app = App("test")
    app.stream("in", value=str).to("out")
    driver = run(app, ("a", "x", 9), (None, "y", 4), ("a", None, 4))
    assert rows(driver) == [("a", "x", 9), (None, "y", 4), ("a", None, 4)]


def test_several_sinks_may_write_to_one_topic_in_the_order_of_the_calls() -> None:
    app = App("test")
    stream = app.stream("in", value=str)
    stream.to("out")
    stream.map_values(str.upper, value=str).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("a", "x", 0), ("a", "X", 0)]


def test_a_function_of_the_value_may_name_the_topic() -> None:
    app = App("test")
    app.stream("in", value=str).to(lambda word: f"{word}-topic")
    driver = run(app, ("a", "x", 0), ("a", "y", 1))
    assert rows(driver, "x-topic") == [("a", "x", 0)]
    assert rows(driver, "y-topic") == [("a", "y", 1)]


def test_a_function_of_key_and_value_may_name_the_topic_and_is_called_with_nulls() -> None:
    app = App("test")
    app.stream("in", value=str).to(lambda key, word: f"{key}-{word}")
    driver = run(app, (None, "x", 0), ("a", None, 1))
    assert driver.produced_topics == {"None-x", "a-None"}


def test_an_expression_may_name_the_topic() -> None:
    app = App("test")
    app.stream("in").to(col("shop"))
    assert rows(run(app, ("a", {"shop": "north"}, 0)), "north") == [("a", {"shop": "north"}, 0)]


def test_a_dynamic_topic_that_the_application_reads_is_read_back() -> None:
    app = App("test")
    app.stream("in", value=str).to(lambda word: "again")
    app.stream("again", value=str).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("a", "x", 0)]


def test_a_function_that_returns_no_name_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=str).to(lambda word: None)
    with pytest.raises(MillstreamError, match="topic name"):
        run(app, ("a", "x", 0))


def test_the_serdes_may_be_declared() -> None:
    app = App("test")
    app.stream("in", value=str).map(lambda word: (len(word), word)).to("out", key=int, value=str)
    assert rows(run(app, ("a", "xyz", 0))) == [(3, "xyz", 0)]


def test_a_value_that_the_serde_cannot_write_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=str).to("out", value=int)
    with pytest.raises(MillstreamError, match="out"):
        run(app, ("a", "x", 0))


def test_a_value_that_cannot_be_written_is_skipped_and_counted_if_so_configured() -> None:
    app = App("test", production_exception_handler="continue")
    app.stream("in").to("out", value=int, name="sink")
    driver = run(app, ("a", "x", 0), ("a", 1, 1))
    assert rows(driver) == [("a", 1, 1)]
    assert driver.dropped == {("sink", "production error"): 1}


def test_a_partitioner_chooses_the_partition() -> None:
    app = App("test")
    app.stream("in", value=str).to("middle", partitioner=lambda key, value, partitions: int(value) % partitions)
    app.stream("middle", value=str).process(Partition, key=str, value=int).to("out")
    driver = run(app, ("a", "0", 0), ("a", "1", 1), ("a", "3", 2), partitions=2)
    assert sorted(value for _, value, _ in rows(driver)) == [0, 1, 1]


def test_without_a_partitioner_equal_keys_go_to_one_partition() -> None:
    app = App("test")
    app.stream("in", value=str).to("middle")
    app.stream("middle", value=str).process(Partition, key=str, value=int).to("out")
    driver = run(app, *(("a", "x", time) for time in range(5)), partitions=3)
    assert len({value for _, value, _ in rows(driver)}) == 1


def test_a_partition_that_does_not_exist_stops_the_application() -> None:
    app = App("test")
    app.stream("in", value=str).to("out", partitioner=lambda key, value, partitions: 7)
    with pytest.raises(MillstreamError, match="partition 7"):
        run(app, ("a", "x", 0), partitions=2)


def test_a_topic_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").to(lambda a, b, c: "out"), "to", "3 arguments")


def test_a_partitioner_of_one_argument_is_refused() -> None:
    refused(lambda: App("test").stream("in").to("out", partitioner=lambda key: 0), "partitioner", "1 argument")


@pytest.mark.parametrize("window", [tumbling(10), session(5)])
def test_all_windows_of_a_key_go_to_one_partition(window: Any) -> None:
    app = App("app")
    counts = app.stream("in", value=str).group_by_key().windowed_by(window).count()
    counts.to_stream().to("middle")
    key = time_windowed(str, 10) if window == tumbling(10) else session_windowed(str)
    app.stream("middle", key=key, value=int).process(Partition, key=key, value=int).to("out")
    driver = run(app, *(("abc"[time % 3], "x", time * 10) for time in range(30)), partitions=4)
    partitions = {(key.key, value) for key, value, _ in rows(driver)}
    assert partitions == {(letter, partition_for(letter.encode(), 4)) for letter in "abc"}
