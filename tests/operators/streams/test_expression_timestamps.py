"""Expressions may read the timestamp of the record, in operators that process single records."""

from __future__ import annotations

import pytest

from millstream import App, TestDriver, col, struct, timestamp, value
from millstream.errors import ExpressionError


def test_a_filter_reads_the_timestamp() -> None:
    app = App("test")
    app.stream("in", value=str).filter(timestamp() >= 10).to("out")
    with TestDriver(app) as driver:
        for time in (9, 10, 11):
            driver.input("in").pipe("k", f"at {time}", timestamp=time)
        assert driver.output("out").read_values() == ["at 10", "at 11"]


def test_filter_not_reads_the_timestamp() -> None:
    app = App("test")
    app.stream("in", value=str).filter_not(timestamp() >= 10).to("out")
    with TestDriver(app) as driver:
        for time in (9, 10):
            driver.input("in").pipe("k", f"at {time}", timestamp=time)
        assert driver.output("out").read_values() == ["at 9"]


def test_map_values_and_select_key_read_the_timestamp() -> None:
    app = App("test")
    stream = app.stream("in", key=str, value=int)
    stream.map_values(struct(at=timestamp(), n=value())).to("values")
    stream.select_key(timestamp(), key=int).to("keys")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 5, timestamp=7)
        assert driver.output("values").read_values() == [{"at": 7, "n": 5}]
        assert driver.output("keys").read_pairs() == [(7, 5)]


def test_a_timestamp_expression_reads_the_records_own() -> None:
    app = App("test")
    app.stream("in", timestamp=timestamp() + col("delay")).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", {"delay": 5}, timestamp=100)
        assert [record.timestamp for record in driver.output("out").read_all()] == [105]


def test_the_timestamp_is_refused_in_operators_without_a_single_record() -> None:
    stream = App("test").stream("in", key=str, value=int)
    with pytest.raises(ExpressionError, match="timestamp"):
        stream.group_by_key().reduce(timestamp())  # type: ignore[arg-type]
