"""The timestamp= and on_invalid_timestamp= of sources: the source of event time."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="call-overload"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, MillstreamError, TestDriver, col


@dataclass
class Order:
    """A value with a timestamp field."""

    placed: int


def app_with(**options: Any) -> App:
    app = App("test")
    app.stream("in", **options).to("out")
    return app


def test_the_default_is_the_timestamp_of_the_record() -> None:
    assert rows(run(app_with(), ("a", 1, 7), ("a", 2, 0))) == [("a", 1, 7), ("a", 2, 0)]


def test_the_name_of_a_field_of_the_value() -> None:
    driver = run(app_with(timestamp="at"), ("a", {"at": 5}, 100))
    assert rows(driver) == [("a", {"at": 5}, 5)]


def test_the_name_of_an_attribute_of_the_value() -> None:
    driver = run(app_with(timestamp="placed", value=Order), ("a", Order(5), 100))
    assert rows(driver) == [("a", Order(5), 5)]


def test_a_record_without_the_field_is_dropped_and_counted() -> None:
    driver = run(app_with(timestamp="at", name="source"), ("a", {}, 1), ("a", None, 2), ("a", {"at": 3}, 3))
    assert rows(driver) == [("a", {"at": 3}, 3)]
    assert driver.dropped == {("source", "invalid timestamp"): 2}


def test_a_function_of_the_value() -> None:
    assert rows(run(app_with(timestamp=lambda n: n * 10, value=int), ("a", 5, 100))) == [("a", 5, 50)]


def test_a_function_of_key_and_value() -> None:
    driver = run(app_with(timestamp=lambda key, n: int(key) + n, value=int), ("1", 5, 100))
    assert rows(driver) == [("1", 5, 6)]


def test_a_function_of_key_value_record_time_and_partition_time() -> None:
    def latest(key: str, n: int, time: int, partition_time: int) -> int:
        return partition_time + n if time == 0 else time

    driver = run(app_with(timestamp=latest, value=int), ("a", 1, 0), ("a", 1, 20), ("a", 1, 10), ("a", 1, 0))
    # the partition time is -1 before the first record, and 20 after the third
    assert [time for _, _, time in rows(driver)] == [0, 20, 10, 21]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    driver = run(app_with(timestamp=lambda key, n: 3 if key is None else 4), (None, 1, 0), ("a", None, 0))
    assert rows(driver) == [(None, 1, 3), ("a", None, 4)]


@pytest.mark.parametrize("result", [None, -1])
def test_a_function_that_returns_none_or_a_negative_time_drops_the_record(result: int | None) -> None:
    driver = run(app_with(timestamp=lambda n: result, name="source"), ("a", 1, 5))
    assert rows(driver) == []
    assert driver.dropped == {("source", "invalid timestamp"): 1}


def test_an_expression() -> None:
    assert rows(run(app_with(timestamp=col("at") + 1), ("a", {"at": 5}, 100))) == [("a", {"at": 5}, 6)]


def test_the_wall_clock() -> None:
    driver = TestDriver(app_with(timestamp="wall_clock"), wall_clock=1_000)
    send(driver, ("a", 1, 5))
    driver.advance_wall_clock("2s")
    send(driver, ("a", 2, 5))
    assert rows(driver) == [("a", 1, 1_000), ("a", 2, 3_000)]


def test_a_negative_timestamp_stops_the_application() -> None:
    with pytest.raises(MillstreamError, match="timestamp -1 is not valid"):
        run(app_with(), ("a", 1, -1))


def test_skip_drops_and_counts_a_negative_timestamp() -> None:
    driver = run(app_with(on_invalid_timestamp="skip", name="source"), ("a", 1, -1), ("a", 2, 0))
    assert rows(driver) == [("a", 2, 0)]
    assert driver.dropped == {("source", "invalid timestamp"): 1}


def test_partition_time_is_the_greatest_time_so_far() -> None:
    driver = run(app_with(on_invalid_timestamp="partition_time"), ("a", 1, 9), ("a", 2, 4), ("a", 3, -1))
    assert rows(driver) == [("a", 1, 9), ("a", 2, 4), ("a", 3, 9)]


def test_partition_time_is_an_error_if_there_is_none_yet() -> None:
    with pytest.raises(MillstreamError, match="not valid"):
        run(app_with(on_invalid_timestamp="partition_time"), ("a", 1, -1))


def test_partition_time_is_that_of_the_topic_not_of_the_stream() -> None:
    app = App("test")
    app.stream("in", "other", value=int, on_invalid_timestamp="partition_time").to("out")
    driver = run(app, ("a", 1, 9))
    send(driver, ("a", 2, 3), ("a", 3, -1), topic="other")
    assert rows(driver) == [("a", 1, 9), ("a", 2, 3), ("a", 3, 3)]


def test_a_table_takes_the_same_options() -> None:
    app = App("test")
    app.table("in", timestamp="at", store="rows").to_stream().to("out")
    driver = run(app, ("a", {"at": 5}, 100))
    assert driver.store("rows", timestamped=True).get("a") == ({"at": 5}, 5)


def test_a_topic_read_back_keeps_the_extracted_time() -> None:
    app = App("test")
    app.stream("in", value=int, timestamp=lambda n: n).to("middle")
    app.stream("middle", value=int).to("out")
    assert rows(run(app, ("a", 5, 100))) == [("a", 5, 5)]


def test_a_function_of_five_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in", timestamp=lambda a, b, c, d, e: 0), "timestamp", "5 arguments")


def test_a_number_in_place_of_a_function_is_refused() -> None:
    refused(lambda: App("test").stream("in", timestamp=5), "timestamp")


def test_an_unknown_value_of_on_invalid_timestamp_is_refused() -> None:
    refused(lambda: App("test").stream("in", on_invalid_timestamp="ignore"), "'skip'", "'partition_time'")
