"""Snapshots while the tables change."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg2.extensions import connection as Connection  # noqa: N812
from tests.connect.postgres.cdc.host import Host, written
from tests.connect.postgres.cdc.load import CREATE, check_history, load
from tests.connect.postgres.server import Database

from millstream.errors import ConnectorError

Hosts = Callable[..., Host]


def interrupted(capture: Host, database: Database, seed: int, probability: float = 0.04) -> None:
    """Runs to the end of the changes of now, and throws the source away at random points."""
    chance = random.Random(seed)
    end = written(database)

    def passed() -> bool:
        if chance.random() < probability:
            capture.close()
        position = capture.committed
        return position is not None and position["lsn"] >= end and "snapshot" not in position

    capture.run_until(passed)


@pytest.mark.parametrize("seed", range(3))
def test_a_first_snapshot_that_is_interrupted_continues_while_rows_change(
    database: Database, host: Hosts, seed: int
) -> None:
    database.execute(CREATE)
    capture = host(snapshot_fetch_size=20, max_batch_size=10, incremental_snapshot_chunk_size=30)
    with load(database, 150):
        capture.run_until(lambda: len(capture.records) >= 50)
        capture.close()
        interrupted(capture, database, seed)
    interrupted(capture, database, seed)
    check_history(database, capture.records)
    rows = Counter(record.key["id"] for record in capture.records if record.value and record.value["op"] == "r")
    assert max(rows.values()) == 1


@pytest.mark.parametrize("seed", range(3))
def test_an_ad_hoc_snapshot_keeps_the_order_of_each_key(database: Database, host: Hosts, seed: int) -> None:
    database.execute(CREATE)
    capture = host(max_batch_size=10, incremental_snapshot_chunk_size=30)
    capture.run_to_end(database)
    capture.close()
    with load(database, 150):
        capture.commands.append({"id": "1", "type": "snapshot", "tables": ["public.t"]})
        interrupted(capture, database, seed)
    interrupted(capture, database, seed)
    check_history(database, capture.records)
    values = [record.value for record in capture.records if record.value]
    assert sum(value["source"]["snapshot"] == "incremental" for value in values) > 100
    assert capture.committed["handled"] == ["1"]


def test_a_command_is_carried_out_once(database: Database, host: Hosts) -> None:
    database.execute(CREATE)
    capture = host(snapshot_mode="no_data")
    capture.commands.append({"id": "1", "type": "snapshot", "tables": ["public\\..*"]})
    capture.run_until(lambda: len(capture.records) == 200)
    capture.run_to_end(database)
    capture.close()
    capture.run_to_end(database)
    assert [record.key["id"] for record in capture.records] == list(range(1, 201))


@contextmanager
def waiting_commit(database: Database, statement: str) -> Iterator[None]:
    """A commit that waits for a synchronous replica: it is in the stream, and no snapshot sees it."""
    first, waiting = database.connect(), database.connect()
    database.execute("set synchronous_commit = local")
    database.execute("alter system set synchronous_standby_names = 'nobody'")
    database.execute("select pg_reload_conf()")
    stopping = threading.Event()

    def commit(connection: Connection, text: str, again: bool) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)
            while again and not stopping.is_set():
                cursor.execute(text)

    def until_waiting(count: int) -> None:
        deadline = time.monotonic() + 20
        while len(database.execute("select 1 from pg_stat_activity where wait_event = 'SyncRep'")) < count:
            assert time.monotonic() < deadline, "the commit does not wait"
            time.sleep(0.01)

    message = "select pg_logical_emit_message(true, 'test', '')"
    threads = [
        threading.Thread(target=commit, args=(first, message, True)),
        threading.Thread(target=commit, args=(waiting, statement, False)),
    ]
    try:
        # The server takes over the setting a moment later: the first commit that waits shows it.
        for count, thread in enumerate(threads, 1):
            thread.start()
            until_waiting(count)
        yield
    finally:
        stopping.set()
        database.execute("alter system reset synchronous_standby_names")
        database.execute("select pg_reload_conf()")
        for thread in threads:
            thread.join()
        first.close()
        waiting.close()


def test_a_transaction_that_is_sent_before_it_is_visible_is_not_overwritten(database: Database, host: Hosts) -> None:
    database.execute(CREATE)
    capture = host()
    capture.run_to_end(database)
    with waiting_commit(database, "update t set n = nextval('version') where id = 7"):
        capture.run_until(lambda: len(capture.records) == 201)
        assert database.execute("select n from t where id = 7") == [(0,)]
        capture.commands.append({"id": "1", "type": "snapshot", "tables": ["public.t"]})
        for restart in (False, True):
            if restart:
                capture.close()
            for _ in range(30):
                capture.step()
            assert len(capture.records) == 201, "rows are emitted that are older than a change"
    capture.run_to_end(database)
    check_history(database, capture.records)
    assert len(capture.records) == 401


@pytest.mark.parametrize("restart", [False, True])
def test_a_row_comes_before_a_change_that_its_snapshot_does_not_see(
    database: Database, host: Hosts, restart: bool
) -> None:
    database.execute(CREATE)
    # With the records of transactions, a chunk is read between two transactions that have both arrived.
    capture = host(max_batch_size=1, provide_transaction_metadata=True)
    capture.run_to_end(database)
    seen = len(capture.records)
    database.execute("update t set n = nextval('version') where id = 3")
    with waiting_commit(database, "update t set n = nextval('version') where id = 7"):
        capture.commands.append({"id": "1", "type": "snapshot", "tables": ["public.t"]})
        capture.run_until(lambda: bool(capture.committed.get("snapshot", {}).get("emitted")))
        assert capture.committed["snapshot"]["emitted"] == [["7"]]
        if restart:
            capture.close()
    capture.run_to_end(database)
    check_history(database, capture.records)
    changes = [record for record in capture.records[seen:] if record.topic == "p.public.t"]
    assert [record.value["op"] for record in changes if record.key == {"id": 7}] == ["r", "u"]
    assert [record.value["op"] for record in changes if record.key == {"id": 3}] == ["u", "r"]
    assert len(changes) == 202


def test_a_table_without_a_key_is_read_whole_or_not_at_all(database: Database, host: Hosts) -> None:
    database.execute("create table a (v int); insert into a select generate_series(1, 50)")
    database.execute("create table b (id int primary key); insert into b select generate_series(1, 50)")
    capture = host(max_batch_size=10)
    capture.step()
    assert capture.committed["snapshot"]["started"] is False
    capture.close()
    capture.run_until(lambda: len(capture.records) == 60)
    capture.close()
    capture.run_to_end(database)
    assert [record.value["after"]["v"] for record in capture.records[:50]] == list(range(1, 51))
    assert [record.key["id"] for record in capture.records[50:]] == list(range(1, 51))


def test_a_snapshot_that_ends_within_a_table_without_a_key_is_an_error(database: Database, host: Hosts) -> None:
    database.execute("create table a (v int); insert into a select generate_series(1, 50)")
    capture = host(max_batch_size=10)
    capture.run_until(lambda: len(capture.records) == 20)
    capture.close()
    with pytest.raises(ConnectorError, match=r"within table public\.a, which has no key") as caught:
        capture.step()
    assert not caught.value.may_pass
    assert caught.value.hint is not None


def test_a_table_that_is_created_later_is_captured_with_its_rows(
    database: Database, host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connect.postgres.cdc.session._NEW_TABLES_INTERVAL", 0.1)
    database.execute("create table t1 (id int primary key)")
    capture = host(table_include_list="public\\.t.*")
    capture.run_to_end(database)
    database.execute("create table t2 (id int primary key); insert into t2 values (1), (2)")
    capture.run_until(lambda: len(capture.records) == 2)
    database.execute("insert into t2 values (3)")
    capture.run_to_end(database)
    assert capture.values("p.public.t2") == [("r", {"id": 1}), ("r", {"id": 2}), ("c", {"id": 3})]


def snapshots(capture: Host) -> list[Any]:
    return [record.value["source"]["snapshot"] for record in capture.records]


def test_the_mode_decides_when_rows_are_read(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key); insert into t values (1), (2)")
    never = host(slot_name=f"{database.name}_n", snapshot_mode="never")
    never.run_to_end(database)
    assert never.records == []
    only = host(slot_name=f"{database.name}_o", snapshot_mode="initial_only")
    for _ in range(2):
        with pytest.raises(StopIteration):
            only.run_until(lambda: False)
        only.close()
    assert snapshots(only) == ["true", "last"]
    always = host(slot_name=f"{database.name}_a", snapshot_mode="always")
    always.run_to_end(database)
    always.close()
    always.run_to_end(database)
    assert snapshots(always) == ["true", "last", "incremental", "incremental"]


def test_a_lost_slot_is_an_error_or_a_new_snapshot(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key); insert into t values (1)")
    capture = host()
    capture.run_to_end(database)
    capture.close()
    database.execute("select pg_drop_replication_slot(%s)", (database.name,))
    with pytest.raises(ConnectorError, match="does not exist") as caught:
        capture.step()
    assert not caught.value.may_pass
    assert "when_needed" in str(caught.value.hint)
    needed = host(snapshot_mode="when_needed")
    needed.committed = capture.committed
    needed.run_to_end(database)
    assert snapshots(needed) == ["last"]
