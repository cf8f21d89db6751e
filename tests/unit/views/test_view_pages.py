"""Pages of views agree with their stores, over random operations of several tasks; commits have growing numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.views.harness import APPLICATION, Tasks, database, key_value, publish
from tests.unit.views.test_view_models import (
    ASKED,
    FEW_KEYS,
    KEY,
    NEAR,
    PARTITIONS,
    RETENTION,
    SEGMENT,
    SPANS,
    TIME,
    VALUE,
    keys_at_home,
    operations,
)

from millstream.errors import CorruptViewError
from millstream.serde import STRING
from millstream.state.ordered import after_prefix
from millstream.state.spec import StoreSpec
from millstream.views.commits import last_commit
from millstream.views.database import ViewDatabase
from millstream.views.pages import Selection, ViewRow, read_page, read_row
from millstream.views.tables import drop_application, find_store

LIMIT = st.integers(1, 3)


def all_pages(reader: ViewDatabase, selection: Selection, limit: int) -> list[ViewRow]:
    """The rows of a selection, page by page."""
    rows: list[ViewRow] = []
    with reader.reading() as connection:
        store = find_store(connection, APPLICATION, "s")
        assert store is not None
        while True:
            page = read_page(connection, store, selection, limit, rows[-1].place if rows else None)
            rows += page.rows
            assert len(page.rows) == limit or not page.has_more
            if not page.has_more:
                break
        assert read_page(connection, store, selection, 10_000) == (rows, False)
        backward = selection._replace(reverse=True)
        assert read_page(connection, store, backward, 10_000).rows == rows[::-1]
        assert not rows or read_page(connection, store, backward, 10_000, rows[-1].place).rows == rows[-2::-1]
    return rows


def run(spec: StoreSpec, partitions: int, batches: Any, check: Callable[[ViewDatabase, Any], None]) -> None:
    with database() as (_, connection, reader):
        tasks = Tasks(connection, spec, partitions)
        tasks.publish()
        for batch in batches:
            for partition, name, arguments in batch:
                getattr(tasks.stores[partition % partitions], name)(*arguments)
            tasks.publish()
            check(reader, tasks.in_memory())


def keys(low: str | None = None, high: str | None = None, **options: Any) -> Selection:
    below = None if high is None else high.encode() + b"\0"
    return Selection(b"" if low is None else low.encode(), below, **options)


@given(limit=LIMIT, partitions=PARTITIONS, batches=operations(put=(KEY, VALUE)))
def test_pages_of_a_key_value_store_have_each_row_once(limit: int, partitions: int, batches: Any) -> None:
    def check(reader: ViewDatabase, expected: Any) -> None:
        def shown(selection: Selection) -> list[tuple[str, str]]:
            return [(row.key.decode(), row.value.decode()) for row in all_pages(reader, selection, limit)]

        assert shown(keys()) == list(expected.all())
        assert shown(keys("a", "b")) == list(expected.range("a", "b"))
        prefix = b"a"
        assert shown(Selection(prefix, after_prefix(prefix))) == list(expected.prefix_scan("a"))
        with reader.reading() as connection:
            store = find_store(connection, APPLICATION, "s")
            assert store is not None
            for asked in ASKED:
                row = read_row(connection, store, asked.encode())
                assert (row and row.value.decode()) == expected.get(asked)

    run(StoreSpec("s", "key-value", STRING, STRING), partitions, keys_at_home(batches), check)


@given(
    limit=LIMIT,
    partitions=PARTITIONS,
    held=st.booleans(),
    retention=RETENTION,
    batches=operations(put=(KEY, TIME, VALUE), release=(TIME,)),
)
def test_pages_of_a_window_store_have_each_row_once(
    limit: int, partitions: int, held: bool, retention: int | None, batches: Any
) -> None:
    def check(reader: ViewDatabase, expected: Any) -> None:
        for low, high in SPANS:
            selection = keys(time_from=max(low, -(2**63)), time_to=min(high, 2**63 - 1))
            rows = all_pages(reader, selection, limit)
            shown = sorted((row.key, row.time, row.value.decode()) for row in rows)
            wanted = expected.fetch_all(low, high)
            assert shown == sorted((window.key.encode(), window.start, value) for window, value in wanted)
        for asked in ASKED:
            rows = all_pages(reader, keys(asked, asked), limit)
            wanted = expected.fetch(asked, *SPANS[0])
            assert [(row.time, row.value.decode()) for row in rows] == wanted

    spec = StoreSpec("s", "window", STRING, STRING, held=held, retention_ms=retention)
    run(spec, partitions, keys_at_home(batches), check)


@given(
    limit=LIMIT,
    partitions=PARTITIONS,
    retention=RETENTION,
    batches=operations(put=(KEY, TIME, st.integers(0, 20), VALUE)),
)
def test_pages_of_a_session_store_have_each_row_once(
    limit: int, partitions: int, retention: int | None, batches: Any
) -> None:
    for batch in batches:
        for place, (partition, name, (key, start, length, value)) in enumerate(batch):
            batch[place] = partition, name, (key, start, start + length, value)

    def check(reader: ViewDatabase, expected: Any) -> None:
        for asked in ASKED:
            for low, high in SPANS:
                selection = keys(asked, asked, time_from=max(low, -(2**63)), time_to=min(high, 2**63 - 1))
                rows = all_pages(reader, selection, limit)
                shown = sorted((row.rank, row.time, row.value.decode()) for row in rows)
                wanted = expected.find_sessions(asked, low, high)
                assert shown == sorted((window.start, window.end, value) for window, value in wanted)

    spec = StoreSpec("s", "session", STRING, STRING, retention_ms=retention)
    run(spec, partitions, keys_at_home(batches), check)


@given(
    limit=LIMIT,
    partitions=PARTITIONS,
    retention=RETENTION,
    batches=operations(put=(FEW_KEYS, VALUE, NEAR), delete=(FEW_KEYS, NEAR)),
)
def test_pages_of_a_versioned_store_show_each_time(
    limit: int, partitions: int, retention: int | None, batches: Any
) -> None:
    def check(reader: ViewDatabase, expected: Any) -> None:
        for moment in [SEGMENT - 9, *range(SEGMENT - 3, SEGMENT + 4), SEGMENT + 30, 2**63 - 1]:
            rows = all_pages(reader, keys(as_of=moment), limit)
            shown = {row.key.decode(): (row.value.decode(), row.timestamp, row.until) for row in rows}
            assert len(shown) == len(rows)
            versions = {asked: expected.get(asked, moment) for asked in ASKED}
            assert shown == {
                asked: (version.value, version.timestamp, version.valid_to)
                for asked, version in versions.items()
                if version is not None
            }
            everything = all_pages(reader, keys(time_from=moment, time_to=moment), limit)
            assert rows == everything

    spec = StoreSpec("s", "versioned", STRING, STRING, retention_ms=retention)
    run(spec, partitions, keys_at_home(batches), check)


def test_the_numbers_of_commits_grow_also_after_a_reset() -> None:
    with database() as (path, connection, _reader):
        assert last_commit(connection, APPLICATION) is None
        tasks = Tasks(connection, key_value())
        numbers = []
        for value in "abc":
            tasks.stores[0].put("k", value)
            tasks.publish()
            commit = last_commit(connection, APPLICATION)
            assert commit is not None
            numbers.append(commit.number)
        drop_application(connection, APPLICATION)
        commit = last_commit(connection, APPLICATION)
        assert commit is not None
        numbers.append(commit.number)
        assert numbers == sorted(set(numbers))
        assert numbers[0] >= commit.time - 60_000
        assert path.exists()


def test_a_commit_without_changes_has_a_number_only_if_the_application_has_views() -> None:
    with database() as (_, connection, _reader):
        publish(connection)
        assert last_commit(connection, APPLICATION) is None
        Tasks(connection, key_value()).publish()
        before = last_commit(connection, APPLICATION)
        publish(connection)
        after = last_commit(connection, APPLICATION)
        assert before is not None
        assert after is not None
        assert after.number > before.number


def test_a_database_of_an_earlier_version_gets_its_numbers_with_the_next_commit() -> None:
    with database() as (_, connection, reader):
        connection.execute("DROP TABLE view_commits")
        with reader.reading() as reading:
            assert last_commit(reading, APPLICATION) is None
        publish(connection)
        Tasks(connection, key_value()).publish()
        assert last_commit(connection, APPLICATION) is not None


def test_a_damaged_number_is_an_error_until_the_next_commit() -> None:
    with database() as (_, connection, _reader):
        tasks = Tasks(connection, key_value())
        tasks.publish()
        connection.execute("UPDATE view_commits SET number = number + 1")
        with pytest.raises(CorruptViewError, match="the number of the last commit of application 'app' is damaged"):
            last_commit(connection, APPLICATION)
        tasks.publish()
        assert last_commit(connection, APPLICATION) is not None


@pytest.mark.parametrize("kind", ["key-value", "window", "session", "versioned"])
def test_a_damaged_row_is_an_error(kind: Any) -> None:
    with database() as (_, connection, reader):
        tasks = Tasks(connection, StoreSpec("s", kind, STRING, STRING))
        {
            "key-value": lambda store: store.put("k", "v"),
            "window": lambda store: store.put("k", 5, "v"),
            "session": lambda store: store.put("k", 5, 6, "v"),
            "versioned": lambda store: store.put("k", "v", 5),
        }[kind](tasks.stores[0])
        tasks.publish()
        table = {"key-value": "view_rows", "versioned": "view_versions"}.get(kind, "view_windows")
        assert len(all_pages(reader, keys(), 1)) == 1
        connection.execute(f"UPDATE {table} SET value = x'00'")
        with pytest.raises(CorruptViewError, match="a row of the view of store 's' is damaged"):
            all_pages(reader, keys(), 1)


def test_a_page_reads_a_range_of_the_table() -> None:
    with database() as (_, connection, _reader):
        tasks = Tasks(connection, StoreSpec("s", "key-value", STRING, STRING))
        for number in range(2000):
            tasks.stores[0].put(f"{number:05}", "v")
        tasks.publish()
        store = find_store(connection, APPLICATION, "s")
        assert store is not None
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(count, 10)
        page = read_page(connection, store, Selection(), 5, (0, b"01000", 0, 0))
        backward = read_page(connection, store, Selection(reverse=True), 5, (0, b"01000", 0, 0))
        connection.set_progress_handler(None, 0)
        assert [row.key for row in page.rows] == [b"01001", b"01002", b"01003", b"01004", b"01005"]
        assert [row.key for row in backward.rows] == [b"00999", b"00998", b"00997", b"00996", b"00995"]
        assert steps < 100


def test_a_page_ends_with_the_row_that_reaches_its_size() -> None:
    with database() as (_, connection, _reader):
        tasks = Tasks(connection, StoreSpec("s", "key-value", STRING, STRING))
        for key in "abc":
            tasks.stores[0].put(key, "v" * 99)
        tasks.publish()
        store = find_store(connection, APPLICATION, "s")
        assert store is not None
        page = read_page(connection, store, Selection(), 10, most_bytes=101)
        assert ([row.key for row in page.rows], page.has_more) == ([b"a", b"b"], True)
        page = read_page(connection, store, Selection(), 10, page.rows[-1].place, most_bytes=1)
        assert ([row.key for row in page.rows], page.has_more) == ([b"c"], False)
