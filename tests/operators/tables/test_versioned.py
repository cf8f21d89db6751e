"""Versioned tables, Materialized(history=…): old values are retained with their timestamps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, Materialized


def versioned(history: Any = 100) -> App:
    app = App("test")
    table = app.table("in", value=str, store=Materialized("rows", history=history), name="table")
    table.to_stream().to("out")
    return app


def test_the_version_of_a_time_is_the_last_one_before_it() -> None:
    store = run(versioned(), ("a", "x", 10), ("a", "y", 20)).store("rows")
    versions = [store.get("a", as_of=time) for time in (9, 10, 19, 20, 99)]
    assert [None if v is None else (v.value, v.timestamp) for v in versions] == [
        None,
        ("x", 10),
        ("x", 10),
        ("y", 20),
        ("y", 20),
    ]


def test_an_out_of_order_version_is_inserted_at_its_time_and_the_latest_stays() -> None:
    store = run(versioned(), ("a", "z", 30), ("a", "x", 10)).store("rows")
    assert store.get("a").value == "z"
    assert store.get("a", as_of=29).value == "x"


def test_an_out_of_order_version_is_emitted() -> None:
    assert rows(run(versioned(), ("a", "z", 30), ("a", "x", 10))) == [("a", "z", 30), ("a", "x", 10)]


def test_of_equal_timestamps_the_later_record_replaces_the_earlier() -> None:
    store = run(versioned(), ("a", "x", 10), ("a", "y", 10)).store("rows")
    assert (store.get("a").value, store.get("a", as_of=9)) == ("y", None)


def test_a_null_value_is_also_a_version() -> None:
    store = run(versioned(), ("a", "x", 10), ("a", None, 20), ("a", "z", 30)).store("rows")
    assert store.get("a", as_of=15).value == "x"
    assert store.get("a", as_of=25) is None
    assert store.get("a").value == "z"


def test_null_keys_are_dropped_and_counted() -> None:
    driver = run(versioned(), (None, "x", 10))
    assert (rows(driver), driver.dropped) == ([], {("table", "null key"): 1})


def test_a_record_just_within_the_history_is_accepted() -> None:
    driver = run(versioned(history=100), ("b", "x", 200), ("a", "y", 100))
    assert driver.store("rows").get("a").value == "y"
    assert driver.dropped == {}


def test_a_record_older_than_the_history_is_dropped_and_counted() -> None:
    driver = run(versioned(history=100), ("b", "x", 200), ("a", "y", 99))
    assert rows(driver) == [("b", "x", 200)]
    assert driver.store("rows").get("a") is None
    assert driver.dropped == {("table", "older than the history"): 1}


def test_a_time_before_the_history_has_no_version_unless_the_latest_is_older() -> None:
    store = run(versioned(history=100), ("a", "x", 10), ("a", "y", 50), ("b", "z", 200)).store("rows")
    assert store.get("a", as_of=40) is None
    assert store.get("a", as_of=60).value == "y"


def test_an_older_version_is_ignored_by_a_grouping_but_not_by_a_filter() -> None:
    app = App("test")
    table = app.table("in", value=str, store=Materialized("rows", history=100))
    table.group_by(lambda key, word: (word, key), value=str).count().to_stream().to("counts")
    table.filter(lambda word: word != "z").to_stream().to("out")
    driver = run(app, ("a", "x", 30), ("a", "y", 10))
    assert rows(driver, "counts") == [("x", 1, 30)]
    assert rows(driver) == [("a", "x", 30), ("a", "y", 10)]


def test_a_stream_joins_the_row_valid_at_the_time_of_the_record() -> None:
    app = App("test")
    prices = app.table("prices", value=int, store=Materialized("prices-store", history=100))
    app.stream("in", value=str).join(prices, lambda word, price: f"{word}{price}", value=str).to("out")
    driver = run(app, ("a", 1, 10), ("a", 2, 20), topic="prices")
    driver.input("in").pipe("a", "x", timestamp=15)
    assert rows(driver) == [("a", "x1", 15)]


def test_the_history_survives_a_restart() -> None:
    driver = run(versioned(), ("a", "x", 10), ("a", "y", 20))
    driver.restart()
    assert driver.store("rows").get("a", as_of=15).value == "x"


def test_a_history_of_zero_retains_the_latest_version_only() -> None:
    driver = run(versioned(history=0), ("a", "x", 10), ("a", "y", 20), ("a", "z", 19))
    assert driver.store("rows").get("a").value == "y"
    assert driver.dropped == {("table", "older than the history"): 1}


def test_a_negative_history_is_refused() -> None:
    refused(lambda: App("test").table("in", store=Materialized("rows", history=-1)), "history", hint=False)


def test_an_invalid_history_is_refused() -> None:
    with pytest.raises(ValueError, match="history: cannot read 'long'"):
        App("test").table("in", store=Materialized("rows", history="long"))
