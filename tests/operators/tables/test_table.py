"""App.table: the latest value of each key; a null value deletes the row."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="call-overload"

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, Materialized, TestDriver, tumbling
from millstream.errors import UnknownStoreError


def test_the_last_value_to_arrive_is_the_row() -> None:
    app = App("test")
    app.table("in", value=str, store="rows")
    driver = run(app, ("a", "x", 1), ("b", "y", 2), ("a", "z", 3))
    assert list(driver.store("rows").all()) == [("a", "z"), ("b", "y")]


def test_every_update_is_emitted_also_equal_values() -> None:
    app = App("test")
    app.table("in", value=str).to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", "x", 2))) == [("a", "x", 1), ("a", "x", 2)]


def test_a_null_value_deletes_the_row_and_is_emitted() -> None:
    app = App("test")
    app.table("in", value=str, store="rows").to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", None, 2))
    assert rows(driver) == [("a", "x", 1), ("a", None, 2)]
    assert driver.store("rows").get("a") is None


def test_a_null_value_of_an_unknown_key_is_emitted() -> None:
    app = App("test")
    app.table("in", value=str, store="rows").to_stream().to("out")
    assert rows(run(app, ("a", None, 1))) == [("a", None, 1)]


def test_null_keys_are_dropped_and_counted() -> None:
    app = App("test")
    app.table("in", value=str, name="rows").to_stream().to("out")
    driver = run(app, (None, "x", 1), ("a", "y", 2), (None, None, 3))
    assert rows(driver) == [("a", "y", 2)]
    assert driver.dropped == {("rows", "null key"): 2}


def test_an_out_of_order_record_replaces_the_row_and_keeps_its_timestamp() -> None:
    app = App("test")
    app.table("in", value=str, store="rows").to_stream().to("out")
    driver = run(app, ("a", "new", 9), ("a", "old", 4))
    assert rows(driver) == [("a", "new", 9), ("a", "old", 4)]
    assert driver.store("rows", timestamped=True).get("a") == ("old", 4)


def test_of_equal_timestamps_the_later_record_is_the_row() -> None:
    app = App("test")
    app.table("in", value=str, store="rows")
    assert run(app, ("a", "x", 1), ("a", "y", 1)).store("rows").get("a") == "y"


def test_rows_are_stored_by_partition_and_queried_as_one_store() -> None:
    app = App("test")
    app.table("in", value=int, store="rows")
    driver = run(app, *((key, n, 0) for n, key in enumerate("dbca")), partitions=3)
    assert list(driver.store("rows").all()) == [("a", 3), ("b", 1), ("c", 2), ("d", 0)]


def test_a_table_survives_a_restart() -> None:
    app = App("test")
    app.table("in", value=str, store="rows")
    driver = run(app, ("a", "x", 1), ("b", "y", 2), ("b", None, 3))
    driver.restart()
    assert list(driver.store("rows").all()) == [("a", "x")]


def test_only_a_store_of_that_name_can_be_queried() -> None:
    app = App("test")
    assert app.table("in", store="rows").queryable_store_name == "rows"
    assert app.table("other").queryable_store_name is None


def test_an_aggregate_without_a_named_store_cannot_be_queried() -> None:
    counts = App("test").stream("in").group_by_key().count()
    assert counts.queryable_store_name is None


def test_a_topic_is_read_once() -> None:
    app = App("test")
    app.table("in", value=str)
    refused(lambda: app.table("in", value=str), "'in' is already read, at test_table.py")


def test_retention_is_for_windows() -> None:
    refused(lambda: App("test").table("in", store=Materialized("rows", retention="1h")), "retention", "history=")


def test_a_store_option_of_another_type_is_refused() -> None:
    refused(lambda: App("test").table("in", store=5), "store", 'store="counts"')


def test_a_store_is_found_by_its_table() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().count(store="counts")
    with TestDriver(app) as driver:
        driver.input("in").pipe("a", "x")
        assert driver.store(counts).get("a") == driver.store("counts").get("a") == 1


def test_a_table_without_a_named_key_value_store_is_refused() -> None:
    app = App("test")
    stream = app.stream("in", value=str)
    unnamed = stream.group_by_key().count()
    windowed = stream.group_by_key().windowed_by(tumbling("1m")).count(store="windows")
    averages = stream.map_values(len, value=int).group_by_key().avg(store="sums")
    with TestDriver(app) as driver:
        with pytest.raises(UnknownStoreError, match="has no named store of its own"):
            driver.store(unnamed)
        with pytest.raises(UnknownStoreError, match=r"window store, which is queried by time\n.*'windows'"):
            driver.store(windowed)
        with pytest.raises(UnknownStoreError, match="has no named store of its own"):
            driver.store(averages)  # the store has sums and counts
