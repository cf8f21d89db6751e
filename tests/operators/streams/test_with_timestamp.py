"""Stream.with_timestamp: sets a new timestamp for each record; key, value and headers are unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, TestDriver, col, join_window, key, timestamp, tumbling, value
from millstream.errors import ProcessingError
from millstream.plan.stateless import Repartition
from millstream.stages.placement import needs_tasks


def test_the_timestamp_is_new_and_key_value_and_headers_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=int).with_timestamp(lambda n: n * 10).to("out")
    (record,) = run(app, ("a", 7, 5, (("trace", b"1"),))).output("out").read_all()
    assert record == ("a", 7, 70, (("trace", b"1"),))


def test_the_function_may_take_the_key_and_the_headers() -> None:
    app = App("test")
    stream = app.stream("in", key=int, value=int)
    stream.with_timestamp(lambda key, n: key + n).to("keys")
    stream.with_timestamp(lambda n, headers: n + len(headers)).to("headers")
    driver = run(app, (100, 7, 5, (("trace", b"1"),)))
    assert rows(driver, "keys") == [(100, 7, 107)]
    assert rows(driver, "headers") == [(100, 7, 8)]


def test_an_expression_may_read_key_value_and_timestamp() -> None:
    app = App("test")
    app.stream("in", key=int, value=dict).with_timestamp(timestamp() + col("delay") + key()).to("out")
    assert rows(run(app, (100, {"delay": 7}, 5))) == [(100, {"delay": 7}, 112)]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).with_timestamp(lambda key, word: 1 if key is None else 2).to("out")
    assert rows(run(app, (None, "x", 0), ("a", None, 0))) == [(None, "x", 1), ("a", None, 2)]


def test_timestamps_of_0_and_of_the_end_of_time_are_valid() -> None:
    app = App("test")
    app.stream("in", value=int).with_timestamp(value()).to("out")
    assert rows(run(app, ("a", 0, 5), ("a", 2**63 - 1, 5))) == [("a", 0, 0), ("a", 2**63 - 1, 2**63 - 1)]


INVALID: list[Any] = [-1, 2**63, None, "5", 5.0, True]


@pytest.mark.parametrize("result", INVALID)
def test_a_result_that_is_not_a_timestamp_stops_the_application(result: Any) -> None:
    app = App("test")
    app.stream("in", value=int).with_timestamp(lambda n: result).to("out")
    with pytest.raises(ProcessingError, match="which is not a timestamp") as caught:
        run(app, ("a", 1, 5))
    assert "test_with_timestamp.py" in str(caught.value)


@pytest.mark.parametrize("result", INVALID)
def test_the_handler_may_continue_without_the_record_and_its_dead_letter_has_the_old_timestamp(result: Any) -> None:
    app = App("test", processing_exception_handler="continue", errors_dead_letter_queue_topic_name="dead")
    app.stream("in", value=int).with_timestamp(lambda n: result if n == 2 else n).to("out")
    driver = run(app, ("a", 1, 5), ("a", 2, 6), ("a", 3, 7))
    assert rows(driver) == [("a", 1, 1), ("a", 3, 3)]
    assert [record.timestamp for record in driver.output("dead", key=bytes, value=bytes).read_all()] == [6]


def test_windows_use_the_new_timestamp_and_drop_records_that_become_late() -> None:
    app = App("test")
    stream = app.stream("in", value=int).with_timestamp(value())
    counts = stream.group_by_key().windowed_by(tumbling(10)).count()
    counts.to_stream().to("out")
    counts.late().to("late")
    driver = run(app, ("a", 15, 0), ("a", 35, 1), ("a", 16, 2))
    assert [(key.start, count, time) for key, count, time in rows(driver)] == [(10, 1, 15), (30, 1, 35)]
    assert rows(driver, "late") == [("a", 16, 16)]


def test_joins_use_the_new_timestamp() -> None:
    app = App("test")
    left = app.stream("in", value=int).with_timestamp(value())
    left.join(app.stream("right", value=int), lambda a, b: [a, b], join_window(5)).to("out")
    with TestDriver(app) as driver:
        driver.input("right").pipe("a", 1, timestamp=100)
        driver.input("in").pipe("a", 104, timestamp=0)
        driver.input("in").pipe("a", 90, timestamp=100)
        assert rows(driver) == [("a", [104, 1], 104)]


def test_the_timestamp_is_kept_through_a_repartition_topic() -> None:
    app = App("test")
    stream = app.stream("in", value=int).with_timestamp(value())
    stream.group_by(lambda n: n % 2, key=int).count().to_stream().to("out")
    assert rows(run(app, ("a", 70, 5), ("b", 90, 4), partitions=2)) == [(0, 1, 70), (0, 2, 90)]


def test_no_repartition_follows() -> None:
    app = App("test")
    app.stream("in", value=int).with_timestamp(value()).group_by_key().count().to_stream().to("out")
    assert run(app, ("a", 1, 0)).produced_topics == {"out"}


def test_after_a_change_of_key_it_runs_before_the_repartition() -> None:
    app = App("test", topology_optimization="all")
    stream = app.stream("in", value=int).select_key(lambda n: n, key=int).with_timestamp(value())
    stream.group_by_key().count(store="one")
    stream.group_by_key().count(store="two")
    assert [node.parent.name for node in app.topology().plan.of_type(Repartition)] == ["in-with-timestamp"] * 2


def test_it_runs_where_a_topic_is_read_and_in_a_task_where_several_are() -> None:
    def needing(*topics: str) -> object:
        app = App("test")
        app.stream(*topics, value=int).with_timestamp(value()).group_by(lambda n: n, key=int)
        return needs_tasks(app.topology())

    assert needing("in") is None
    assert str(needing("a", "b")) == "WithTimestamp(a-b-with-timestamp)"


def test_its_name_is_derived_or_declared() -> None:
    app = App("test")
    app.stream("in", value=int).with_timestamp(value()).with_timestamp(value(), name="event-time")
    assert [node.name for node in app.plan().nodes] == ["in-source", "in-with-timestamp", "event-time"]


def test_calling_it_on_a_table_is_refused_with_a_hint() -> None:
    table: Any = App("test").table("in")
    with pytest.raises(AttributeError, match=r"write \.to_stream\(\)\.with_timestamp\(…\)"):
        table.with_timestamp(value())


def test_a_function_annotated_with_another_result_type_is_refused() -> None:
    def text(n: int) -> str:
        return str(n)

    stream: Any = App("test").stream("in", value=int)
    refused(lambda: stream.with_timestamp(text), "with_timestamp", "returns str, which is not a timestamp")
    refused(lambda: stream.with_timestamp(value() > 5), "with_timestamp", "returns bool")
    refused(lambda: stream.with_timestamp(lambda a, b, c: a), "with_timestamp", "3 arguments")
