"""``driver.store``: the stores of tables, aggregates and processors, read in a test."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Materialized, TestDriver, Windowed, session, sliding, tumbling
from millstream.errors import StateError, UnknownStoreError

partitions = pytest.mark.parametrize("partitions", [1, 3])
RECORDS = [("b", 1), ("a", 2), ("c", 3), ("a", 4)]


def driver_of(app: App, partitions: int) -> TestDriver:
    driver = TestDriver(app, partitions=partitions)
    driver.input("in", advance=6).pipe_pairs(RECORDS)
    return driver


@partitions
def test_a_table_is_read(partitions: int) -> None:
    app = App("driver")
    app.table("in", value=int, store="table")
    store = driver_of(app, partitions).store("table")
    assert list(store.all()) == [("a", 4), ("b", 1), ("c", 3)]
    assert list(store.reverse_all()) == [("c", 3), ("b", 1), ("a", 4)]
    assert list(store.range("a", "b")) == [("a", 4), ("b", 1)]
    assert list(store.reverse_range("b", None)) == [("c", 3), ("b", 1)]
    assert list(store.prefix_scan("c")) == [("c", 3)]
    assert (store.get("a"), store.get("z"), store.approximate_num_entries()) == (4, None, 3)


@partitions
def test_a_table_is_read_with_timestamps(partitions: int) -> None:
    app = App("driver")
    app.table("in", value=int, store="table")
    store = driver_of(app, partitions).store("table", timestamped=True)
    assert store.get("a") == (4, 18)
    assert list(store.all()) == [("a", (4, 18)), ("b", (1, 0)), ("c", (3, 12))]


@partitions
def test_time_windows_are_read(partitions: int) -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling(10, grace=100)).count(store="windows")
    driver = driver_of(app, partitions)
    store = driver.store("windows")
    assert store.fetch("a", 0) == 1
    assert list(store.fetch("a", 0, 100)) == [(0, 1), (10, 1)]
    assert list(store.backward_fetch("a", 0, 100)) == [(10, 1), (0, 1)]
    assert list(store.all()) == [
        (Windowed("a", 0, 10), 1),
        (Windowed("a", 10, 20), 1),
        (Windowed("b", 0, 10), 1),
        (Windowed("c", 10, 20), 1),
    ]
    assert list(store.fetch_all(10, 20)) == [(Windowed("a", 10, 20), 1), (Windowed("c", 10, 20), 1)]
    assert driver.store("windows", timestamped=True).fetch("a", 10) == (1, 18)


@partitions
def test_sliding_windows_are_read(partitions: int) -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().windowed_by(sliding(10, grace=100)).count(store="windows")
    store = driver_of(app, partitions).store("windows")
    assert list(store.fetch("b", 0, 100)) == [(0, 1)]


@partitions
def test_sessions_are_read(partitions: int) -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().windowed_by(session(20)).count(store="sessions")
    store = driver_of(app, partitions).store("sessions")
    assert store.fetch_session("a", 6, 18) == 2
    assert list(store.fetch("a")) == [(Windowed("a", 6, 18), 2)]
    assert list(store.fetch_range("a", "b")) == [(Windowed("a", 6, 18), 2), (Windowed("b", 0, 0), 1)]


@partitions
def test_versioned_tables_are_read(partitions: int) -> None:
    app = App("driver")
    app.table("in", value=int, store=Materialized("versions", history="1m"))
    store = driver_of(app, partitions).store("versions")
    assert (store.get("a").value, store.get("a").timestamp) == (4, 18)
    assert (store.get("a", as_of=17).value, store.get("a", as_of=17).valid_to) == (2, 18)
    assert store.get("a", as_of=5) is None


@partitions
def test_aggregates_and_global_tables_are_read(partitions: int) -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().count(store="counts")
    app.global_table("everywhere", value=int, store="global")
    driver = driver_of(app, partitions)
    driver.input("everywhere").pipe_pairs([("x", 1), ("y", 2)])
    assert driver.store("counts").get("a") == 2
    assert list(driver.store("global").all()) == [("x", 1), ("y", 2)]
    assert driver.store("global").approximate_num_entries() == 2


def test_an_unknown_store_is_refused_with_a_suggestion() -> None:
    app = App("driver")
    app.table("in", store="table")
    with (
        TestDriver(app) as driver,
        pytest.raises(UnknownStoreError, match=r"no store 'tabel'\n  hint: did you mean 'table'"),
    ):
        driver.store("tabel")


def test_the_error_for_a_table_without_a_store_has_a_hint() -> None:
    app = App("driver")
    table = app.table("in")
    table.to_stream().to("out")
    assert table.queryable_store_name is None
    with TestDriver(app) as driver, pytest.raises(UnknownStoreError, match="store='…'"):
        driver.store("in-table-store")


@pytest.mark.parametrize("method", ["put", "delete", "put_if_absent", "put_all"])
@partitions
def test_stores_cannot_be_written_in_a_test(method: str, partitions: int) -> None:
    app = App("driver")
    app.table("in", value=int, store="table")
    store = driver_of(app, partitions).store("table")
    arguments: dict[str, tuple[Any, ...]] = {"delete": ("a",), "put_all": ([("z", 1)],)}
    with pytest.raises(StateError, match="read-only"):
        getattr(store, method)(*arguments.get(method, ("z", 1)))


def test_a_method_that_a_store_does_not_have_is_an_attribute_error() -> None:
    app = App("driver")
    app.table("in", value=int, store="table")
    for count in (1, 3):
        with pytest.raises(AttributeError):
            driver_of(app, count).store("table").fetch  # noqa: B018


def test_the_changelog_of_a_store_contains_each_change() -> None:
    app = App("driver")
    app.table("in", key=str, value=str, store="table")
    with TestDriver(app) as driver:
        driver.input("in", start=5, advance=1).pipe_pairs([("a", "x"), ("a", None), ("b", "y")])
        changes = driver.changelog("table")
        assert [(c.key, c.value is None) for c in changes] == [(b"a", False), (b"a", True), (b"b", False)]
        assert changes[0].timestamp == 5


def test_a_store_without_logging_has_no_changelog() -> None:
    app = App("driver")
    app.table("in", value=int, store=Materialized("table", logging=False))
    with TestDriver(app) as driver:
        driver.input("in").pipe("a", 1)
        assert driver.changelog("table") == []
        assert driver.store("table").get("a") == 1


def test_the_changelog_of_an_unknown_store_is_refused() -> None:
    app = App("driver")
    app.table("in", store="table")
    with TestDriver(app) as driver, pytest.raises(UnknownStoreError, match="did you mean 'table'"):
        driver.changelog("tabel")
