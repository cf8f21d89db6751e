from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.harness import APPLICATION, Tasks, database, key_value, open_, publish

from millstream.core.frozen import replace
from millstream.errors import InvalidNameError, StateError, UnknownStoreError
from millstream.serde import STRING
from millstream.serde.key_layouts import store_window_key
from millstream.state.spec import ChangelogRecord, StoreSpec
from millstream.views.changes import ViewChange, change_of
from millstream.views.reader import ViewDatabase, open_view
from millstream.views.stores import ViewVersionedStore, ViewWindowStore
from millstream.views.tables import apply_changes, create_tables, drop_application, drop_store, list_stores


@pytest.fixture
def views() -> Iterator[tuple[sqlite3.Connection, ViewDatabase]]:
    with database() as (_, connection, reader):
        yield connection, reader


def windows(retention: int | None = 1000, **options: Any) -> StoreSpec:
    return StoreSpec("windows", "window", STRING, STRING, retention_ms=retention, window_size_ms=10, **options)


def test_tables_are_created_once(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    Tasks(connection, key_value()).publish()
    create_tables(connection)
    assert list(open_(reader, key_value()).all()) == []


def test_a_change_without_records_registers_the_store(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    publish(connection, change_of(windows(), 0, [], -1), change_of(key_value(), 0, []))
    assert [(store.name, store.kind, store.retention_ms) for store in list_stores(connection, APPLICATION)] == [
        ("counts", "key-value", None),
        ("windows", "window", 1000),
    ]
    assert open_(reader, windows()).all() == []


def test_applications_have_their_own_stores(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    for application in ["one", "two"]:
        publish(
            connection,
            change_of(key_value(), 0, [ChangelogRecord(b"of", application.encode(), 0)]),
            application=application,
        )
    assert [open_view(reader, name, key_value()).get("of") for name in ["one", "two"]] == ["one", "two"]
    drop_application(connection, "one")
    assert list_stores(connection, "one") == []
    assert open_view(reader, "two", key_value()).get("of") == "two"


def test_a_dropped_application_leaves_no_rows(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    versions = StoreSpec("versions", "versioned", STRING, STRING)
    sessions = StoreSpec("sessions", "session", STRING, STRING)
    specs = [key_value(), windows(), versions, sessions]
    arguments: list[tuple[Any, ...]] = [("k", "v"), ("k", 5, "v"), ("k", "v", 5), ("k", 1, 5, "v")]
    for spec, put in zip(specs, arguments, strict=True):
        tasks = Tasks(connection, spec)
        tasks.stores[0].put(*put)
        tasks.publish()
    view = open_(reader, key_value())
    drop_application(connection, APPLICATION)
    with pytest.raises(UnknownStoreError):
        view.get("k")
    for spec in specs:
        Tasks(connection, spec).publish()
    assert view.get("k") is None
    assert open_(reader, windows()).fetch("k", 0, 10) == []
    assert open_(reader, sessions).fetch("k") == []
    assert open_(reader, versions).get("k") is None


def test_a_store_can_be_dropped_alone(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, _ = views
    publish(connection, change_of(key_value("a"), 0, []), change_of(key_value("b"), 0, []))
    drop_store(connection, APPLICATION, "a")
    drop_store(connection, APPLICATION, "never-there")
    assert [store.name for store in list_stores(connection, APPLICATION)] == ["b"]


def test_a_transaction_that_is_rolled_back_changes_nothing(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    tasks = Tasks(connection, windows())
    tasks.stores[0].put("k", 10, "v")
    tasks.publish()
    tasks.stores[0].put("k", 10_000, "w")
    connection.execute("BEGIN IMMEDIATE")
    apply_changes(connection, APPLICATION, tasks.changes())
    connection.execute("ROLLBACK")
    assert open_(reader, windows()).fetch("k", 0, 10_000) == [(10, "v")]


def test_the_last_record_of_a_key_wins(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    publish(
        connection,
        change_of(
            key_value(),
            0,
            [
                ChangelogRecord(b"put", None, 0),
                ChangelogRecord(b"deleted", b"1", 0),
                ChangelogRecord(b"put", b"2", 0),
                ChangelogRecord(b"deleted", None, 0),
            ],
        ),
    )
    assert list(open_(reader, key_value()).all()) == [("put", "2")]


def test_expired_rows_are_deleted(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    tasks = Tasks(connection, windows(1000), 2)
    tasks.stores[1].put("other", 5, "kept: the time of its task stands")
    kept = set()
    for start in range(10_000):
        tasks.stores[0].put("k", start, "v")
        if start % 10 == 9:
            tasks.publish()
            kept.add(len(ViewWindowStore(reader, APPLICATION, tasks.spec)))
    # The visible rows, the row of the other task, and the expired rows of a bucket that has not expired.
    assert max(kept) <= 1000 + 1 + 125
    view = open_(reader, tasks.spec)
    assert len(view.all()) == 1000 + 1
    assert len(view.fetch("other", 0, 10)) == 1


def test_many_expired_rows_are_deleted_over_several_batches(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    tasks = Tasks(connection, windows(1000))
    for number in range(25_000):
        tasks.stores[0].put(str(number), number % 3, "v")
    tasks.publish()
    tasks.stores[0].put("late", 100_000, "v")
    counts = []
    for _ in range(4):
        tasks.publish()
        assert [key.key for key, _ in open_(reader, tasks.spec).all()] == ["late"]
        counts.append(len(ViewWindowStore(reader, APPLICATION, tasks.spec)))
    assert counts == [15_001, 5_001, 1, 1]


def test_expired_versions_are_deleted(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    tasks = Tasks(connection, StoreSpec("versions", "versioned", STRING, STRING, retention_ms=100))
    store = tasks.stores[0]
    store.put("old", "still the latest", 1)
    store.put("gone", "v", 2)
    store.put("gone", None, 3)
    for timestamp in range(4, 1000):
        store.put("k", str(timestamp), timestamp)
        if timestamp % 7 == 0:
            tasks.publish()
    tasks.publish()
    view = open_(reader, tasks.spec)
    assert view.get("old") == ("still the latest", 1, None)
    assert view.get("gone") is None
    assert view.get("k", 899) == ("899", 899, 900)
    assert view.get("k", 898) is None
    assert len(ViewVersionedStore(reader, APPLICATION, tasks.spec)) == 1 + 101


@pytest.mark.parametrize(("before", "after"), [(None, 800), (800, None), (800, 80), (80, 800)])
def test_a_new_retention_moves_rows_to_new_buckets(
    views: tuple[sqlite3.Connection, ViewDatabase], before: int | None, after: int | None
) -> None:
    connection, reader = views
    tasks = Tasks(connection, windows(before))
    for start in range(-50, 50, 5):
        tasks.stores[0].put("k", start, str(start))
    tasks.publish()
    assert len(open_(reader, windows(before)).all()) == (16 if before == 80 else 20)

    tasks.spec = windows(after)
    tasks.publish()
    shown = [start for start in range(-50, 50, 5) if 80 not in {before, after} or start > 45 - 80]
    assert [start for start, _ in open_(reader, windows(after)).fetch("k", -100, 100)] == shown
    assert [key.start for key, _ in open_(reader, windows(after)).all()] == shown


def test_a_store_of_another_kind_replaces_the_view(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, reader = views
    publish(connection, change_of(key_value(), 0, [ChangelogRecord(b"k", b"v", 0)]))
    former = open_(reader, key_value())
    spec = replace(key_value(), kind="window")
    publish(connection, change_of(spec, 0, [ChangelogRecord(store_window_key(b"k", 5), b"w", 5)], 5))
    assert open_(reader, spec).fetch("k", 5) == "w"
    with pytest.raises(StateError, match="'counts' of application 'app' is a window store, not a key-value store"):
        former.get("k")


def test_changes_of_buffers_or_without_time_are_refused(views: tuple[sqlite3.Connection, ViewDatabase]) -> None:
    connection, _ = views
    with pytest.raises(StateError, match="'held-back' is a buffer store, which has no view"):
        apply_changes(connection, APPLICATION, [ViewChange("held-back", "buffer", 0, [])])
    with pytest.raises(StateError, match="a change of the window store 'windows' needs the time of the store"):
        apply_changes(connection, APPLICATION, [change_of(windows(), 0, [])])
    with pytest.raises(InvalidNameError):
        apply_changes(connection, APPLICATION, [change_of(key_value("no spaces"), 0, [])])
    with pytest.raises(InvalidNameError):
        apply_changes(connection, "no/slashes", [change_of(key_value(), 0, [])])
