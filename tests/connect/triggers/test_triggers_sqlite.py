"""Capture by triggers in SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.connect.recording import Recording
from tests.connect.triggers.tables import applied, operations

from millstream.connect.triggers import TriggerSource
from millstream.errors import ConfigError, ConnectorError


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, data)")
        yield connection


def source(tmp_path: Path, tables: str = "orders", **settings: Any) -> TriggerSource:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"connection.url": f"sqlite:{tmp_path}/shop.db", "topic.prefix": "shop", "poll.interval.ms": 1}
    return TriggerSource({**base, "table.include.list": tables, **named})


def test_each_change_is_an_event_and_what_is_rolled_back_is_none(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders = source(tmp_path)
    shop.execute("INSERT INTO orders VALUES (0, 'earlier', NULL)")
    orders.install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    shop.execute("BEGIN")
    shop.execute("INSERT INTO orders VALUES (2, 'never', NULL)")
    shop.execute("DELETE FROM orders")
    shop.execute("ROLLBACK")
    shop.execute("BEGIN")
    shop.execute("UPDATE orders SET item = 'b' WHERE id = 1")
    shop.execute("SAVEPOINT s")
    shop.execute("DELETE FROM orders")
    shop.execute("ROLLBACK TO s")
    shop.execute("COMMIT")
    shop.execute("UPDATE orders SET id = 9 WHERE id = 1")
    shop.execute("DELETE FROM orders WHERE id = 9")
    recording = Recording()
    records = recording.run(orders)
    assert operations(records) == [
        ({"id": 1}, "c"),
        ({"id": 1}, "u"),
        ({"id": 1}, "d"),
        ({"id": 1}, None),
        ({"id": 9}, "c"),
        ({"id": 9}, "d"),
        ({"id": 9}, None),
    ]
    assert {record.topic for record in records} == {"shop.orders"}
    update = records[1].value
    assert (update["before"]["item"], update["after"]["item"]) == ("a", "b")
    assert (update["source"]["table"], update["source"]["sequence"]) == ("orders", 2)


@pytest.mark.parametrize(
    "value",
    [None, 0, -(2**63), 0.1 + 0.2, 1e300, float("inf"), "", 'ü"\n\t\\😀', "a\0b", b"", bytes(range(256))],
)
def test_values_come_back_as_they_are(tmp_path: Path, shop: sqlite3.Connection, value: Any) -> None:
    orders = source(tmp_path)
    orders.install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', ?)", (value,))
    [record] = Recording().run(orders)
    assert record.value["after"]["data"] == value
    assert type(record.value["after"]["data"]) is type(value)


def test_recorded_changes_are_deleted_and_numbers_are_not_reused(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders, recording = source(tmp_path), Recording()
    orders.install()
    left = "SELECT count(*) FROM millstream_changes WHERE sequence > 0"
    for number in range(3):
        shop.execute("INSERT INTO orders VALUES (?, 'a', NULL)", (number,))
        recording.run(orders)
        recording.run(orders, until=lambda: shop.execute(left).fetchone() == (0,))
    assert operations(recording.records) == [({"id": number}, "c") for number in range(3)]


def test_a_writer_that_holds_the_lock_does_not_stop_the_source(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders, recording = source(tmp_path), Recording()
    orders.install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    shop.execute("BEGIN IMMEDIATE")
    shop.execute("INSERT INTO orders VALUES (2, 'b', NULL)")
    polls = iter(range(5))
    recording.run(orders, until=lambda: next(polls, None) is None)
    assert len(recording.records) == 1
    shop.execute("COMMIT")
    left = "SELECT count(*) FROM millstream_changes WHERE sequence > 0"
    recording.run(orders, until=lambda: shop.execute(left).fetchone() == (0,))
    assert len(recording.records) == 2


def test_stops_at_any_point_lose_and_double_nothing(tmp_path: Path, shop: sqlite3.Connection) -> None:
    draw = random.Random(2)
    orders, recording = source(tmp_path, max_batch_size=3), Recording()
    orders.install()
    for _step in range(60):
        shop.execute("BEGIN")
        for _change in range(draw.randrange(1, 5)):
            key = draw.randrange(8)
            statement = draw.choice(
                [
                    "INSERT INTO orders VALUES (:key, :item, NULL) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
                    "DELETE FROM orders WHERE id = :key",
                    "UPDATE OR IGNORE orders SET id = id + 1, item = :item WHERE id = :key",
                ]
            )
            shop.execute(statement, {"key": key, "item": str(draw.random())})
        shop.execute(draw.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        recording.run(orders, draw=draw)
    rows = {
        f'{{"id": {row[0]}}}': dict(zip(("id", "item", "data"), row, strict=True))
        for row in shop.execute("SELECT * FROM orders")
    }
    assert applied(recording.records) == rows


def test_tables_without_a_key_and_with_hostile_names(tmp_path: Path, shop: sqlite3.Connection) -> None:
    shop.execute("""CREATE TABLE "it's ""a"" %s" ("x'y""z" TEXT, b)""")
    shop.execute("CREATE TABLE pairs (b INTEGER, a INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID")
    orders = source(tmp_path, """it's "a" %s,pairs""")
    orders.install()
    shop.execute("""INSERT INTO "it's ""a"" %s" VALUES ('v', 1)""")
    shop.execute("INSERT INTO pairs VALUES (1, 2)")
    shop.execute("""DELETE FROM "it's ""a"" %s" """)
    records = Recording().run(orders)
    assert operations(records) == [(None, "c"), ({"a": 2, "b": 1}, "c"), (None, "d")]
    assert records[0].value["after"] == {"x'y\"z": "v", "b": 1}


def test_a_new_installation_keeps_the_changes_that_were_not_read(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders, recording = source(tmp_path), Recording()
    orders.install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    shop.execute("ALTER TABLE orders ADD COLUMN more TEXT DEFAULT 'x'")
    orders.install()
    shop.execute("INSERT INTO orders VALUES (2, 'b', NULL, 'y')")
    assert [record.value["after"].get("more") for record in recording.run(orders)] == [None, "y"]


def test_removed_triggers_leave_nothing(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders = source(tmp_path)
    orders.install()
    orders.remove()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    assert shop.execute("SELECT name FROM sqlite_master WHERE name LIKE '%millstream%'").fetchall() == []
    with pytest.raises(ConnectorError, match="there is no change table millstream_changes"):
        Recording().run(orders)


def test_a_change_table_that_was_created_anew_is_noticed(tmp_path: Path, shop: sqlite3.Connection) -> None:
    orders, recording = source(tmp_path), Recording()
    orders.install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    recording.run(orders)
    orders.remove()
    orders.install()
    shop.execute("INSERT INTO orders VALUES (2, 'a', NULL)")
    with pytest.raises(ConnectorError, match="was created anew"):
        recording.run(orders)


def test_a_missing_table_is_refused_and_changes_nothing(tmp_path: Path, shop: sqlite3.Connection) -> None:
    source(tmp_path).install()
    with pytest.raises(ConfigError, match="there is no table missing"):
        source(tmp_path, "missing").install()
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    assert len(Recording().run(source(tmp_path))) == 1
