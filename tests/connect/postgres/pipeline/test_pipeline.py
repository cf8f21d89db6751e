"""From PostgreSQL through a topology to PostgreSQL, under load, while everything is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connect.postgres.pipeline import application
from tests.connect.postgres.pipeline.load import MARK, SCHEMA, Load
from tests.connect.postgres.server import Database, PostgresServer
from tests.connect.waiting import PATIENCE, wait_for

from millstream.connect.postgres.cdc.first_snapshot import BETWEEN_CHUNKS
from millstream.core.failpoints import EXIT_STATUS
from millstream.log import open_log
from millstream.log.api import Scope

KILLS = int(os.environ.get("MILLSTREAM_TEST_KILLS", "20"))

TOTALS = "select customer, count(*), sum(amount) from orders group by customer order by customer"
NAMED = (
    "select o.id, o.customer, o.amount, c.name from orders o left join customers c on c.id = o.customer order by o.id"
)


def url_of(database: Database) -> str:
    return f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}"


@contextlib.contextmanager
def running(directory: Path, source: Database, target: Database, point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "output").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, application.__file__, str(directory), url_of(source), url_of(target)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), "MILLSTREAM_FAILPOINT": point},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def results(target: Database) -> tuple[list[Any], list[Any]]:
    """The results in the target; empty if its tables do not exist yet."""
    names = {name for (name,) in target.execute("select tablename from pg_tables where schemaname = 'public'")}
    if not {"totals", "named"} <= names:
        return [], []
    totals = target.execute("select customer, orders, amount from totals where orders > 0 order by customer")
    return totals, target.execute("select id, customer, amount, name from named order by id")


def wanted(source: Database) -> tuple[list[Any], list[Any]]:
    return source.execute(TOTALS), source.execute(NAMED)


def changes(directory: Path, topic: str) -> Iterator[tuple[int, Any]]:
    """The key and the value of each change of a topic, in the order of its partitions."""
    with open_log(directory / "data") as log:
        for number, end in enumerate(log.ends([topic])[topic]):
            records = log.read(topic, number, 0, end)
            for key, value in zip(records["key"].to_pylist(), records["value"].to_pylist(), strict=True):
                yield json.loads(key)["id"], None if value is None else json.loads(value)


def assert_changes_are_exact(directory: Path, source: Database, table: str) -> None:
    """The topic has each read of the snapshot once, no change that a read contains already, and ends with the table.

    A snapshot that was interrupted continues while changes flow, so a change may come before the read of its row.
    """
    lives: dict[int, Any] = {}
    read: set[int] = set()
    for key, change in changes(directory, f"shop.public.{table}"):
        if change is None:
            assert lives.get(key) is None, "a tombstone follows the deletion"
            continue
        assert (change["after"] or {}).get("amount") != MARK, "what was rolled back never appears"
        if change["op"] == "r":
            assert key not in read, (table, key, change)
            read.add(key)
        else:
            assert change["op"] != "c" or lives.get(key) is None, (table, key, change)
            assert change["op"] == "c" or lives.get(key) is not None or key not in read, (table, key, change)
        lives[key] = change["after"]
    rows = {row[0]: row[1:] for row in source.execute(f"select * from {table}")}
    assert {key: tuple(row.values())[1:] for key, row in lives.items() if row is not None} == rows
    assert read


def is_in_snapshot(directory: Path) -> bool:
    """Whether the recorded position of the source is within a snapshot."""
    with open_log(directory / "data") as log:
        state = log.applications.state(Scope("shop", "connector-capture-0"))
    return json.loads(state.get("position", b"null") or b"null").get("snapshot") is not None if state else False


def kill_often(directory: Path, source: Database, target: Database, load: Load, kills: int) -> int:
    """Kills the application, and at times the server; returns how many kills met a snapshot."""
    chance, in_snapshot = random.Random(24), 0
    with running(directory, source, target, f"{BETWEEN_CHUNKS}:3") as process:
        assert process.wait(PATIENCE) == EXIT_STATUS
    for kill in range(kills):
        with running(directory, source, target) as process:
            before = load.transactions
            wait_for(lambda: load.transactions > before + 5, "load")  # noqa: B023  (called at once)
            wait_for((directory / "data").exists, "the start")
            time.sleep(chance.random() * (0.6 if kill < 3 else 2))
            assert process.poll() is None, (directory / "output").read_text()
            if kill % 4 == 3:
                source.server.kill()
                source.server.start()
                source.close()  # the connections of the test are lost
                target.close()
                time.sleep(chance.random())
        in_snapshot += is_in_snapshot(directory)
    return in_snapshot


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_target_equals_the_source_when_everything_is_killed(
    tmp_path: Path, database: Database, postgres: PostgresServer
) -> None:
    database.execute(SCHEMA)
    load = Load(database)
    with postgres.database() as target:
        load.start()
        try:
            assert kill_often(tmp_path, database, target, load, KILLS) > 0, "no kill has met the snapshot"
        finally:
            load.stop()
        with running(tmp_path, database, target) as process:
            wait_for(lambda: results(target) == wanted(database) or process.poll() is not None, "equal databases")
            time.sleep(0.5)  # a change too many would come now
            assert process.poll() is None, (tmp_path / "output").read_text()
            assert results(target) == wanted(database)
        for table in ("orders", "customers"):
            assert_changes_are_exact(tmp_path, database, table)
