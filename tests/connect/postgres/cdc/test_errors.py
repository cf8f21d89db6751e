"""What cannot be captured is an error that says what to do."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.connect.postgres.cdc.host import Host
from tests.connect.postgres.server import Database

from millstream.connect.postgres.cdc.source import PostgresSource
from millstream.errors import ConfigError, ConnectorError

Hosts = Callable[..., Host]

BASE = {"topic.prefix": "p", "database.user": "anna", "database.dbname": "shop"}


def error_of(capture: Host) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        capture.run_until(lambda: False)
    capture.close()
    return caught.value


def wait_until_free(database: Database) -> None:
    """Waits until the process of the server that has used the slot has ended."""
    deadline = time.monotonic() + 20
    while database.execute("select 1 from pg_replication_slots where active and slot_name = %s", (database.name,)):
        assert time.monotonic() < deadline, "the slot is still in use"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"table.included.list": "x"}, "unknown setting 'table.included.list'", "did you mean 'table.include.list'?"),
        ({"snapshot.mode": "initail"}, "'initail' is not allowed", "did you mean 'initial'?"),
        ({"table.include.list": "("}, "is not a regular expression", None),
        ({"slot.name": "Shop"}, "'Shop' is not allowed", None),
        ({"table.include.list": "a", "table.exclude.list": "b"}, "are both given", None),
        ({"message.key.columns": "t"}, "names no columns", None),
    ],
)
def test_a_mistake_in_the_settings_is_named(settings: dict[str, Any], message: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresSource({**BASE, **settings})
    assert message in caught.value.message
    if hint is not None:
        assert caught.value.hint == hint


def test_the_password_is_never_shown(database: Database, host: Hosts) -> None:
    source = PostgresSource({**BASE, "database.password": "hunter2"})
    assert "hunter2" not in repr(source)
    capture = host(database_password="hunter2", database_user="nobody")
    error = error_of(capture)
    assert "hunter2" not in str(error)


def test_a_source_can_be_sent_to_another_process() -> None:
    assert repr(pickle.loads(pickle.dumps(PostgresSource(BASE)))) == "PostgresSource(shop at localhost:5432)"


@pytest.mark.parametrize(
    ("settings", "message", "may_pass"),
    [
        ({"database_dbname": "nothing"}, 'database "nothing" does not exist', False),
        ({"database_user": "nobody"}, 'role "nobody" does not exist', False),
        ({"database_port": 1}, "refused", True),
    ],
)
def test_a_server_that_cannot_be_reached(
    database: Database, host: Hosts, settings: dict[str, Any], message: str, may_pass: bool
) -> None:
    error = error_of(host(**settings))
    assert message in error.message
    assert error.may_pass is may_pass


def test_missing_rights_are_named_with_the_grant(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key); create table u (id int primary key)")
    role = f"r{database.name}"
    database.execute(f"create role {role} login")
    try:
        capture = host(database_user=role, table_include_list="public\\.t")
        assert error_of(capture).hint == f'run: ALTER ROLE "{role}" REPLICATION'
        database.execute(f"alter role {role} replication")
        error = error_of(capture)
        assert error.hint is not None
        assert "CREATE PUBLICATION" in error.hint
        assert not error.may_pass
        database.execute("create publication millstream_publication for table t")
        error = error_of(capture)
        assert f'GRANT SELECT ON "public"."t" TO "{role}"' in str(error.hint)
        database.execute(f"grant select on t to {role}; insert into t values (1)")
        capture.run_to_end(database)
        assert capture.values() == [("r", {"id": 1})]
        capture.close()
    finally:
        database.execute(f"drop owned by {role}; drop role {role}")


def test_a_slot_of_something_else_is_not_touched(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key)")
    database.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", (database.name,))
    error = error_of(host())
    assert "belongs to something else" in error.message
    assert not error.may_pass


def test_two_connectors_cannot_share_a_slot(database: Database, host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.connect.postgres.cdc.source._ATTEMPTS", 2)
    database.execute("create table t (id int primary key)")
    first = host()
    first.run_to_end(database)
    database.execute("insert into t values (1)")
    first.run_to_end(database)
    second = host()
    second.committed = first.committed
    error = error_of(second)
    assert "is in use by the server process" in error.message
    assert error.may_pass


def test_a_slot_that_something_has_advanced_is_an_error(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key)")
    capture = host()
    capture.run_to_end(database)
    capture.close()
    database.execute("insert into t values (1)")
    wait_until_free(database)
    database.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", (database.name,))
    error = error_of(capture)
    assert "beyond the recorded position" in error.message
    assert not error.may_pass


def test_a_position_of_another_cluster_is_an_error(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key)")
    capture = host()
    capture.run_to_end(database)
    capture.close()
    position = capture.committed
    capture.committed = {**position, "system": "1"}
    assert "the position is of the database" in error_of(capture).message
    capture.committed = {**position, "timeline": 7}
    assert "timeline 1, which does not contain" in error_of(capture).message
    capture.committed = {**position, "lsn": position["lsn"] + 2**40}
    assert "restored from a backup" in str(error_of(capture).hint)


def test_a_publication_that_is_dropped_is_an_error(database: Database, host: Hosts) -> None:
    database.execute("create table t (id int primary key)")
    capture = host()
    capture.run_to_end(database)
    capture.close()
    database.execute("drop publication millstream_publication; insert into t values (1)")
    error = error_of(capture)
    assert "publication" in error.message
    assert not error.may_pass


def test_no_captured_table_is_an_error(database: Database, host: Hosts) -> None:
    error = error_of(host(table_include_list="public\\.nothing"))
    assert "no table is captured" in error.message


def test_a_server_without_logical_decoding_is_an_error(database: Database, host: Hosts) -> None:
    database.server.kill()
    database.close()
    database.server.start(wal_level="replica", max_wal_senders="5")
    try:
        error = error_of(host())
        assert "wal_level is replica" in error.message
        assert not error.may_pass
    finally:
        database.server.kill()
        database.server.start()
        database.close()
