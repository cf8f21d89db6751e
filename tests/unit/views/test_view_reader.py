from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.views.harness import APPLICATION, Tasks, connect, database, key_value, open_, publish

from millstream.errors import StateError, UnknownStoreError
from millstream.serde import LONG, STRING
from millstream.state.spec import ChangelogRecord, StoreSpec
from millstream.state.stores import ValueAndTimestamp
from millstream.views.changes import change_of
from millstream.views.reader import ViewDatabase, open_view

MANY = 2500
TOTAL = 1000
ACCOUNTS = [StoreSpec(name, "key-value", STRING, LONG) for name in ("left", "right")]


class Database:
    def __init__(self, path: Path, connection: sqlite3.Connection, reader: ViewDatabase) -> None:
        self.path, self.connection, self.reader = path, connection, reader

    def put(self, key: str, value: str | None) -> None:
        data = None if value is None else value.encode()
        publish(self.connection, change_of(key_value(), 0, [ChangelogRecord(key.encode(), data, 0)]))


@pytest.fixture
def views() -> Iterator[Database]:
    with database() as opened:
        yield Database(*opened)


# --- published rows -------------------------------------------------------------------------------------------------


def test_a_view_returns_the_last_published_batch(views: Database) -> None:
    views.put("k", "1")
    view = open_view(views.path, APPLICATION, key_value())
    assert view.get("k") == "1"
    views.put("k", "2")
    assert view.get("k") == "2"


def test_timestamps_are_returned_on_request(views: Database) -> None:
    spec = key_value(timestamped=True)
    publish(views.connection, change_of(spec, 0, [ChangelogRecord(b"k", b"v", 7)]))
    assert open_(views.reader, spec).get("k") == "v"
    assert open_(views.reader, spec, timestamped=True).get("k") == ValueAndTimestamp("v", 7)


def test_views_are_read_only(views: Database) -> None:
    views.put("k", "1")
    with pytest.raises(StateError, match="'counts' is read-only here"):
        open_(views.reader, key_value()).put("k", "2")
    with views.reader.snapshot() as connection, pytest.raises(sqlite3.OperationalError, match=r"readonly|read-only"):
        connection.execute("DELETE FROM view_rows")


def test_an_unknown_store_is_an_error_with_a_suggestion(views: Database) -> None:
    views.put("k", "1")
    with pytest.raises(UnknownStoreError, match="'app' has no store 'conuts' that can be queried") as raised:
        open_(views.reader, key_value("conuts"))
    assert raised.value.hint == "did you mean 'counts'?"
    with pytest.raises(UnknownStoreError) as raised:
        open_(views.reader, key_value("else"))
    assert raised.value.hint == "it has: counts"


def test_an_application_without_views_has_no_stores(views: Database) -> None:
    with pytest.raises(UnknownStoreError, match="'other' has no store 'counts'"):
        open_view(views.reader, "other", key_value())


def test_a_database_without_tables_has_no_stores(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "log.db").close()
    with pytest.raises(UnknownStoreError, match="it has not been started yet"):
        open_view(tmp_path / "log.db", APPLICATION, key_value())


def test_a_missing_database_is_an_error_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"database '.*log.db' does not exist"):
        open_view(tmp_path / "log.db", APPLICATION, key_value())
    assert not (tmp_path / "log.db").exists()


def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"something else, and long enough to be looked at" * 100)
    with pytest.raises(StateError, match="cannot be read: file is not a database"):
        open_view(tmp_path / "log.db", APPLICATION, key_value())


def test_a_path_may_contain_reserved_characters_of_uris(tmp_path: Path) -> None:
    path = tmp_path / "50% of #1?mode=rw.db"
    connection = connect(path)
    publish(connection, change_of(key_value(), 0, [ChangelogRecord(b"k", b"v", 0)]))
    connection.close()
    assert open_view(str(path), APPLICATION, key_value()).get("k") == "v"


def test_a_buffer_has_no_view(views: Database) -> None:
    with pytest.raises(StateError, match="'held-back' is a buffer store, which has no view"):
        open_(views.reader, StoreSpec("held-back", "buffer", STRING, STRING))


def test_a_function_can_open_the_connections(views: Database) -> None:
    views.put("k", "1")
    opened: list[sqlite3.Connection] = []

    def connection() -> sqlite3.Connection:
        opened.append(sqlite3.connect(views.path, isolation_level=None, check_same_thread=False))
        return opened[-1]

    reader = ViewDatabase(connection)
    view = open_(reader, key_value())
    assert [view.get("k"), view.get("k")] == ["1", "1"]
    assert len(opened) == 1
    reader.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_closed_database_cannot_be_read(views: Database) -> None:
    views.put("k", "1")
    view = open_(views.reader, key_value())
    views.reader.close()
    with pytest.raises(StateError, match="has been closed"):
        view.get("k")


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_stays_at_its_batch(views: Database) -> None:
    views.put("k", "1")
    view = open_(views.reader, key_value())
    with views.reader.snapshot():
        views.put("k", "2")
        assert view.get("k") == "1"
        assert list(view.all()) == [("k", "1")]
        with views.reader.snapshot():
            assert view.get("k") == "1"
        assert view.get("k") == "1"
        with ThreadPoolExecutor(1) as other_thread:
            assert other_thread.submit(view.get, "k").result() == "2"
        assert open_view(views.path, APPLICATION, key_value()).get("k") == "2"
    assert view.get("k") == "2"


def test_a_snapshot_ends_with_an_error(views: Database) -> None:
    views.put("k", "1")
    view = open_(views.reader, key_value())
    with pytest.raises(UnknownStoreError), views.reader.snapshot():
        open_(views.reader, key_value("never"))
    views.put("k", "2")
    assert view.get("k") == "2"


def many(views: Database) -> Any:
    records = [ChangelogRecord(b"%04d" % number, b"v", 0) for number in range(MANY)]
    publish(views.connection, change_of(key_value(), 0, records))
    return open_(views.reader, key_value())


def delete_all(views: Database) -> None:
    records = [ChangelogRecord(b"%04d" % number, None, 0) for number in range(MANY)]
    publish(views.connection, change_of(key_value(), 0, records))


def checkpoint_is_held_up(views: Database) -> bool:
    views.connection.execute("PRAGMA busy_timeout = 0")
    return bool(views.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


def test_a_long_listing_stays_at_its_batch(views: Database) -> None:
    view = many(views)
    listing = view.all()
    delete_all(views)
    assert list(view.all()) == []
    assert [key for key, _ in listing] == [f"{number:04d}" for number in range(MANY)]
    assert not checkpoint_is_held_up(views)


def test_an_abandoned_listing_ends_its_transaction(views: Database) -> None:
    listing = many(views).all()
    assert next(listing) == ("0000", "v")
    delete_all(views)
    assert checkpoint_is_held_up(views)
    del listing
    assert not checkpoint_is_held_up(views)


def test_a_long_listing_can_be_consumed_in_another_thread(views: Database) -> None:
    listing = many(views).reverse_all()
    with ThreadPoolExecutor(1) as other_thread:
        assert len(other_thread.submit(list, listing).result()) == MANY


def test_a_long_listing_outlives_its_snapshot(views: Database) -> None:
    view = many(views)
    with views.reader.snapshot():
        delete_all(views)
        listing = view.all()
    assert len(list(listing)) == MANY


# --- concurrent readers ---------------------------------------------------------------------------------------------


def move(connection: sqlite3.Connection, batch: int) -> None:
    """Publishes a batch that moves an amount from store to store; their sum is constant."""
    amount = batch * 7919 % TOTAL
    tasks = [Tasks(connection, spec, 2) for spec in ACCOUNTS]
    for task, value in zip(tasks, [amount, TOTAL - amount], strict=True):
        task.stores[0].put("some", value // 3)
        task.stores[1].put("rest", value - value // 3)
        task.stores[1].put("batch", batch)
    publish(connection, *[change for task in tasks for change in task.changes()])


def read_batch(reader: ViewDatabase) -> int:
    """Returns the batch that both stores have, which must be the same, with the constant sum."""
    with reader.snapshot():
        left, right = [dict(open_(reader, spec).all()) for spec in ACCOUNTS]
    batch: int = left.pop("batch")
    assert right.pop("batch") == batch
    assert sum([*left.values(), *right.values()]) == TOTAL
    return batch


def test_threads_read_whole_batches(views: Database) -> None:
    move(views.connection, 1)
    begun = threading.Barrier(5)

    def read() -> list[int]:
        begun.wait()
        return [read_batch(views.reader) for _ in range(50)]

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(4)]
        begun.wait()
        for batch in range(2, 100):
            move(views.connection, batch)
        for seen in readers:
            assert seen.result() == sorted(seen.result())
    assert read_batch(views.reader) == 99


READER = """
import sys
from pathlib import Path
from millstream.views.reader import ViewDatabase
from tests.unit.views.test_view_reader import read_batch
reader, seen = ViewDatabase(Path(sys.argv[1])), 0
while seen < 300:
    batch = read_batch(reader)
    assert batch >= seen, (batch, seen)
    if batch > seen:
        seen = batch
        print(seen, flush=True)
"""


def test_another_process_reads_whole_batches(views: Database) -> None:
    move(views.connection, 1)
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(views.path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        for batch in range(2, 301):
            if batch in {2, 100, 200}:  # so that it has read several batches, also on a slow machine
                assert int(process.stdout.readline()) < batch
            move(views.connection, batch)
        seen = [int(line) for line in process.stdout]
    assert process.returncode == 0
    assert seen[-1] == 300


FORK = """
import os, sys
from pathlib import Path
from millstream.views.reader import ViewDatabase
from tests.unit.views.harness import key_value, open_
reader = ViewDatabase(Path(sys.argv[1]))
view = open_(reader, key_value())
assert view.get("k") == "1"
child = os.fork()
if not child:
    assert view.get("k") == "1"
    reader.close()
    os._exit(42)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
assert view.get("k") == "1"
reader.close()
"""


def test_a_forked_process_can_read(views: Database) -> None:
    views.put("k", "1")
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", FORK, str(views.path)], cwd=root, check=True)
