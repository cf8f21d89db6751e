"""The stream of changes."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.connect.postgres.cdc.host import Host, final_rows
from tests.connect.postgres.server import Database

from millstream.connect.api import SourceRecord
from millstream.errors import ConnectorError

Hosts = Callable[..., Host]

TABLE = "create table t (id int primary key, v text)"


def comparable(records: list[SourceRecord]) -> list[Any]:
    """The records without the times at which they were made."""
    result = []
    for record in records:
        value = record.value
        if value is not None and "op" in value:
            value = {**value, "ts_ms": 0, "source": {**value["source"], "ts_ms": 0}}
        result.append((record.topic, record.key, value, record.headers))
    return result


def test_rows_of_the_first_snapshot_come_before_changes(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; insert into t values (2, 'b'), (1, 'a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("insert into t values (3, 'c'); update t set v = 'B' where id = 2; delete from t where id = 1")
    capture.run_to_end(database)
    assert capture.values("p.public.t") == [
        ("r", {"id": 1, "v": "a"}),
        ("r", {"id": 2, "v": "b"}),
        ("c", {"id": 3, "v": "c"}),
        ("u", {"id": 2, "v": "B"}),
        ("d", {"id": 1, "v": None}),
        None,
    ]
    assert [record.key for record in capture.records] == [{"id": i} for i in (1, 2, 3, 2, 1, 1)]
    snapshots = [record.value["source"]["snapshot"] for record in capture.records if record.value]
    assert snapshots == ["true", "last", "false", "false", "false"]


def test_the_envelope_is_that_of_debezium(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host()
    capture.run_to_end(database)
    database.execute("insert into t values (1, 'a')")
    capture.run_to_end(database)
    (record,) = capture.records
    source = record.value["source"]
    assert list(record.value) == ["before", "after", "source", "op", "ts_ms", "transaction"]
    assert (source["connector"], source["name"], source["db"]) == ("postgresql", "p", database.name)
    assert (source["schema"], source["table"], source["snapshot"]) == ("public", "t", "false")
    assert source["lsn"] == int(json.loads(source["sequence"])[1])
    assert record.timestamp == source["ts_ms"] <= record.value["ts_ms"]
    assert record.key_schema is not None
    assert record.key_schema.name == "p.public.t.Key"
    schema = record.value_schema
    assert schema is not None
    assert schema.name == "p.public.t.Envelope"
    assert [field.name for field in schema.fields] == list(record.value)
    assert [field.name for field in schema.fields[2].schema.fields] == list(source)
    assert schema.fields[0].schema.name == "p.public.t.Value"


def test_rolled_back_changes_never_appear(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host()
    capture.run_to_end(database)
    connection = database.connect()
    with connection.cursor() as cursor:
        cursor.execute("begin; insert into t values (1, 'no'); rollback")
        cursor.execute("begin; insert into t values (2, 'yes'); savepoint s; insert into t values (3, 'no')")
        cursor.execute("rollback to s; insert into t values (4, 'yes'); commit")
    connection.close()
    capture.run_to_end(database)
    assert capture.values() == [("c", {"id": 2, "v": "yes"}), ("c", {"id": 4, "v": "yes"})]


def test_transactions_come_in_the_order_of_their_commits(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host()
    capture.run_to_end(database)
    connection = database.connect()
    with connection.cursor() as cursor:
        cursor.execute("begin; insert into t values (1, 'long')")
        database.execute("insert into t values (2, 'short')")
        cursor.execute("insert into t values (3, 'long'); commit")
    connection.close()
    capture.run_to_end(database)
    assert [value[1]["id"] for value in capture.values()] == [2, 1, 3]


def test_any_end_of_the_process_loses_and_doubles_nothing(database: Database, host: Hosts) -> None:
    """The source is thrown away at random points, and what it had not committed with it."""
    database.execute(TABLE)
    settings: dict[str, Any] = {"max_batch_size": 7, "provide_transaction_metadata": True}
    whole = host(**settings)
    pieces = host(slot_name=f"{database.name}_2", **settings)
    whole.run_to_end(database)
    pieces.run_to_end(database)
    database.execute("insert into t select g, 'x' from generate_series(1, 100) g")
    for i in range(20):
        database.execute("update t set v = 'y' where id %% 9 = %s", (i % 9,))
        database.execute("delete from t where id = %s", (i,))
    whole.run_to_end(database)
    chance = random.Random(7)
    closed = 0
    while pieces.committed["lsn"] < whole.committed["lsn"]:
        if chance.random() < 0.2:
            pieces.close()
            closed += 1
        pieces.step()
    assert closed > 10
    assert comparable(pieces.records) == comparable(whole.records)


def test_a_large_transaction_is_cut_into_batches(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host(max_batch_size=100)
    capture.run_to_end(database)
    before = capture.batches
    database.execute("insert into t select g, 'x' from generate_series(1, 1050) g")
    seen = []
    capture.run_until(lambda: len(capture.records) >= 500)
    seen.append(capture.committed)
    assert seen[0]["transaction"] > seen[0]["lsn"]
    assert seen[0]["index"] == len(capture.records)
    capture.close()
    capture.run_to_end(database)
    assert [value[1]["id"] for value in capture.values()] == list(range(1, 1051))
    assert capture.batches - before > 10


def test_a_change_of_the_key_is_a_delete_and_a_create(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; insert into t values (1, 'a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("update t set id = 2")
    capture.run_to_end(database)
    deleted, tombstone, created = capture.records[1:]
    assert (deleted.key, deleted.value["op"], tombstone.key, tombstone.value) == ({"id": 1}, "d", {"id": 1}, None)
    assert (created.key, created.value["op"], created.value["after"]) == ({"id": 2}, "c", {"id": 2, "v": "a"})
    assert deleted.headers == (("__debezium.newkey", b'{"id": 2}'),)
    assert created.headers == (("__debezium.oldkey", b'{"id": 1}'),)


def test_without_tombstones_a_delete_is_one_record(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; insert into t values (1, 'a')")
    capture = host(tombstones_on_delete=False)
    capture.run_to_end(database)
    database.execute("delete from t")
    capture.run_to_end(database)
    assert [value[0] for value in capture.values()] == ["r", "d"]


@pytest.mark.parametrize(("identity", "before"), [("default", {"id": 1, "v": None}), ("full", {"id": 1, "v": "a"})])
def test_the_old_row_has_the_columns_of_the_replica_identity(
    database: Database, host: Hosts, identity: str, before: dict[str, Any]
) -> None:
    database.execute(f"{TABLE}; alter table t replica identity {identity}; insert into t values (1, 'a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("update t set v = 'a' where id = 1")
    database.execute("delete from t")
    capture.run_to_end(database)
    update, delete = (record.value for record in capture.records[1:3])
    assert update["before"] == (before if identity == "full" else None)
    assert delete["before"] == before
    assert capture.records[2].key == {"id": 1}


def test_an_index_as_replica_identity_is_the_key(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key, code text not null unique, v text)")
    database.execute("alter table t replica identity using index t_code_key; insert into t values (1, 'a', 'x')")
    capture = host()
    capture.run_to_end(database)
    database.execute("update t set v = 'y'")
    database.execute("update t set code = 'b'")
    database.execute("delete from t")
    capture.run_to_end(database)
    assert [record.key for record in capture.records] == [{"code": c} for c in ("a", "a", "a", "a", "b", "b", "b")]
    assert [value and value[0] for value in capture.values()] == ["r", "u", "d", None, "c", "d", None]


def test_a_table_without_a_key_has_records_without_keys(database: Database, host: Hosts) -> None:
    database.execute("create table t (v text); insert into t values ('a'), ('a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("alter table t replica identity full")
    database.execute("insert into t values ('b')")
    database.execute("update t set v = 'c' where v = 'b'")
    database.execute("delete from t where v = 'c'")
    capture.run_to_end(database)
    assert capture.values() == [(op, {"v": v}) for op, v in zip("rrcud", "aabcc", strict=True)]
    assert {record.key for record in capture.records} == {None}


def test_a_large_value_that_did_not_change_is_a_placeholder(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key, v text, b bytea, n int[], h int)")
    database.execute("alter table t alter v set storage external, alter b set storage external")
    database.execute("alter table t alter n set storage external")
    database.execute("insert into t values (1, repeat('x', 9000), '\\x00', array_fill(1, array[3000]), 1)")
    capture = host()
    capture.run_to_end(database)
    database.execute("update t set h = 2")
    database.execute("alter table t replica identity full")
    database.execute("update t set h = 3")
    capture.run_to_end(database)
    first, second = (record.value["after"] for record in capture.records[1:])
    assert first["v"] == "__debezium_unavailable_value"
    assert first["b"] == b"\x00"
    assert first["n"] == list(b"__debezium_unavailable_value")
    assert second["v"] == "x" * 9000
    assert second["n"] == [1] * 3000


def test_truncate_is_skipped_unless_it_is_wanted(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; insert into t values (1, 'a')")
    capture, all_operations = host(), host(slot_name=f"{database.name}_2", skipped_operations="none")
    for each in (capture, all_operations):
        each.run_to_end(database)
    database.execute("truncate t")
    for each in (capture, all_operations):
        each.run_to_end(database)
    assert capture.values() == [("r", {"id": 1, "v": "a"})]
    assert all_operations.values() == [("r", {"id": 1, "v": "a"}), ("t", None)]


def test_columns_follow_the_definition_of_the_table(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host()
    capture.run_to_end(database)
    for statement in (
        "insert into t values (1, 'a')",
        "alter table t add n int default 7",
        "insert into t values (2, 'b', 8)",
        "alter table t rename v to w",
        "insert into t values (3, 'c', 9)",
        "alter table t drop w",
        "insert into t values (4, 10)",
        "alter table t alter n type text",
        "insert into t values (5, '11')",
    ):
        database.execute(statement)
    capture.run_to_end(database)
    assert [value[1] for value in capture.values()] == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b", "n": 8},
        {"id": 3, "w": "c", "n": 9},
        {"id": 4, "n": 10},
        {"id": 5, "n": "11"},
    ]


def test_only_included_tables_and_columns_are_captured(database: Database, host: Hosts) -> None:
    database.execute("create schema s; create table s.a (id int primary key, x int, y int)")
    database.execute("create table s.b (id int primary key); create table a (id int primary key)")
    database.execute("insert into s.a values (1, 2, 3)")
    capture = host(table_include_list="s\\.a", column_exclude_list="s\\.a\\.y")
    capture.run_to_end(database)
    database.execute("insert into s.a values (4, 5, 6); insert into s.b values (1); insert into a values (1)")
    capture.run_to_end(database)
    assert capture.values() == [("r", {"id": 1, "x": 2}), ("c", {"id": 4, "x": 5})]
    assert {record.topic for record in capture.records} == {"p.s.a"}


def test_other_columns_can_be_the_key(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key, a int, b int); alter table t replica identity full")
    capture = host(message_key_columns="public\\.t:a,b")
    capture.run_to_end(database)
    database.execute("insert into t values (1, 2, 3)")
    database.execute("update t set b = 4")
    capture.run_to_end(database)
    assert [record.key for record in capture.records] == [{"a": 2, "b": b} for b in (3, 3, 3, 4)]


def test_partitions_are_one_table(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key, v text) partition by range (id)")
    database.execute("create table t1 partition of t for values from (0) to (10)")
    database.execute("create table t2 partition of t for values from (10) to (20); insert into t values (15, 'a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("insert into t values (1, 'b')")
    database.execute("update t set id = 11 where id = 1")
    capture.run_to_end(database)
    assert {record.topic for record in capture.records} == {"p.public.t"}
    assert sorted(row["id"] for row in final_rows(capture.records, "p.public.t").values()) == [11, 15]


def test_transactions_are_described_on_demand(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; create table u (id int primary key)")
    capture = host(provide_transaction_metadata=True)
    capture.run_to_end(database)
    database.execute("insert into t values (1, 'a'), (2, 'b'); insert into u values (1)")
    capture.run_to_end(database)
    begin, *changes, end = capture.records
    assert (begin.topic, begin.value["status"], end.value["status"]) == ("p.transaction", "BEGIN", "END")
    blocks = [record.value["transaction"] for record in changes]
    assert [(block["total_order"], block["data_collection_order"]) for block in blocks] == [(1, 1), (2, 2), (3, 1)]
    assert {block["id"] for block in blocks} == {begin.value["id"]} == {end.key["id"]}
    assert end.value["event_count"] == 3
    counts = [(each["data_collection"], each["event_count"]) for each in end.value["data_collections"]]
    assert counts == [("public.t", 2), ("public.u", 1)]


def test_the_server_is_told_what_is_recorded(database: Database, host: Hosts) -> None:
    """The server deletes its log up to the recorded position, also while no captured table changes."""
    database.execute(f"{TABLE}; create table other (id int)")
    capture = host(table_include_list="public\\.t", status_update_interval_ms=200)
    capture.run_to_end(database)
    database.execute("insert into other select generate_series(1, 1000)")
    ((end,),) = database.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")

    def confirmed() -> int:
        ((lsn,),) = database.execute(
            "select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint from pg_replication_slots where slot_name = %s",
            (database.name,),
        )
        assert lsn <= capture.committed["lsn"]
        return int(lsn)

    capture.run_until(lambda: confirmed() >= end)
    assert capture.records == []
    assert set(capture.gauges) == {"slot.retained.bytes", "lag.bytes", "lag.ms"}


def test_heartbeats_are_records(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host(heartbeat_interval_ms=10)
    capture.run_until(lambda: len(capture.records) > 1)
    assert capture.records[0].topic == "__debezium-heartbeat.p"
    assert capture.records[0].key == {"serverName": "p"}


def test_a_killed_server_continues_where_it_was(database: Database, host: Hosts) -> None:
    database.execute(TABLE)
    capture = host()
    capture.run_to_end(database)
    database.execute("insert into t select g, 'x' from generate_series(1, 50) g")
    capture.run_until(lambda: bool(capture.records))
    database.server.kill()
    with pytest.raises(ConnectorError) as caught:
        capture.run_until(lambda: False)
    assert caught.value.may_pass
    capture.close()
    database.server.start()
    database.close()
    database.execute("insert into t values (51, 'y')")
    capture.run_to_end(database)
    assert [value[1]["id"] for value in capture.values()] == list(range(1, 52))


def test_a_server_that_does_not_answer_is_an_error(
    database: Database, host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connect.postgres.cdc.replication._SILENCE", 0.5)
    database.execute(f"{TABLE}; insert into t values (1, 'a')")
    capture = host()
    capture.run_to_end(database)
    database.execute("insert into t values (2, 'b')")
    capture.run_to_end(database)
    ((process,),) = database.execute(
        "select active_pid from pg_replication_slots where slot_name = %s", (database.name,)
    )
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectorError, match="has not answered") as caught:
            capture.run_until(lambda: False)
    finally:
        os.kill(process, signal.SIGCONT)
    assert caught.value.may_pass
    capture.close()
    database.execute("insert into t values (3, 'c')")
    capture.run_to_end(database)
    assert [value[1]["id"] for value in capture.values()] == [1, 2, 3]


def test_the_slot_is_dropped_on_demand(database: Database, host: Hosts) -> None:
    database.execute(f"{TABLE}; insert into t values (1, 'a')")
    capture = host(slot_drop_on_stop=True)
    capture.run_to_end(database)
    slots = "select 1 from pg_replication_slots where slot_name = %s"
    capture.close()
    assert database.execute(slots, (database.name,))
    capture.run_to_end(database)
    capture.stopping = True
    capture.close()
    assert not database.execute(slots, (database.name,))
