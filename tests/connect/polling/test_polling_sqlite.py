"""Polling a SQLite database, and one behind a function that connects."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.connect.recording import Recording

from millstream.connect.polling import PollingSource
from millstream.errors import ConfigError, ConnectorError

INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "at"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "id"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT, at INTEGER)")
        yield connection


def source(tmp_path: Path, mode: dict[str, Any], **settings: Any) -> PollingSource:
    tables = {} if "query" in settings else {"table.whitelist": "orders"}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"connection.url": f"sqlite:{tmp_path}/shop.db", "topic.prefix": "shop.", "poll.interval.ms": 1}
    return PollingSource({**base, **tables, **mode, **named})


def insert(shop: sqlite3.Connection, *rows: tuple[Any, ...]) -> None:
    shop.executemany("INSERT INTO orders (item, at) VALUES (?, ?)", rows)


def items(recording: Recording) -> list[str]:
    return [value["item"] for value in recording.values()]


def test_new_rows_are_read_once_by_an_incrementing_column(tmp_path: Path, shop: sqlite3.Connection) -> None:
    recording, orders = Recording(), source(tmp_path, INCREMENTING, key_fields="id", batch_max_rows=2)
    insert(shop, ("a", 1), ("b", 1), ("c", 1))
    recording.run(orders, "orders")
    shop.execute("DELETE FROM orders WHERE item = 'c'")
    shop.execute("UPDATE orders SET item = 'changed' WHERE item = 'a'")  # it is not seen
    insert(shop, ("d", 1))
    recording.run(orders, "orders")
    assert items(recording) == ["a", "b", "c", "d"]
    assert [record.key for record in recording.records] == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]
    assert {record.topic for record in recording.records} == {"shop.orders"}
    assert recording.committed == {"incrementing": 4}


def test_new_and_changed_rows_are_read_by_both_columns(tmp_path: Path, shop: sqlite3.Connection) -> None:
    recording, orders = Recording(), source(tmp_path, BOTH, batch_max_rows=2)
    insert(shop, *((letter, 5) for letter in "abcde"))
    recording.run(orders, "orders")
    shop.execute("UPDATE orders SET item = 'B', at = 6 WHERE item = 'b'")
    insert(shop, ("f", 5), ("g", 6))
    recording.run(orders, "orders")
    assert items(recording) == ["a", "b", "c", "d", "e", "f", "B", "g"]


def test_rows_of_one_time_are_read_together_in_the_mode_timestamp(tmp_path: Path, shop: sqlite3.Connection) -> None:
    recording, orders = Recording(), source(tmp_path, TIMESTAMP, batch_max_rows=2)
    insert(shop, *((f"{at}-{number}", at) for at in range(5) for number in range(7)))
    recording.run(orders, "orders", draw=random.Random(3))
    assert sorted(items(recording)) == sorted(f"{at}-{number}" for at in range(5) for number in range(7))


@pytest.mark.parametrize("mode", [INCREMENTING, TIMESTAMP, BOTH], ids=lambda mode: mode["mode"])
def test_stops_at_any_point_lose_and_double_nothing(
    tmp_path: Path, shop: sqlite3.Connection, mode: dict[str, Any]
) -> None:
    draw = random.Random(11)
    recording, orders = Recording(), source(tmp_path, mode, batch_max_rows=3)
    expected: list[str] = []
    for at in range(40):
        new = [f"{at}-{number}" for number in range(draw.randrange(4))]
        insert(shop, *((name, at) for name in new))
        expected += new
        recording.run(orders, "orders", draw=draw)
    assert sorted(items(recording)) == sorted(expected)


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%f", "%s"])
def test_rows_of_the_last_moments_wait_for_slower_transactions(
    tmp_path: Path, shop: sqlite3.Connection, form: str
) -> None:
    unit = {"timestamp.unit": "seconds"} if form == "%s" else {}
    delay = {**BOTH, **unit, "timestamp.delay.interval.ms": 3_600_000}
    recording, orders = Recording(), source(tmp_path, delay)
    for name, age in (("old", "-2 hours"), ("young", "-30 minutes"), ("now", "0 seconds")):
        at = "CAST(strftime(?, 'now', ?) AS INTEGER)" if form == "%s" else "strftime(?, 'now', ?)"
        shop.execute(f"INSERT INTO orders (item, at) VALUES ('{name}', {at})", (form, age))
    recording.run(orders, "orders")
    assert items(recording) == ["old"]
    later = source(tmp_path, {**delay, "timestamp.delay.interval.ms": 60_000})
    recording.run(later, "orders")
    assert items(recording) == ["old", "young"]


def test_a_query_is_polled_with_its_own_topic(tmp_path: Path, shop: sqlite3.Connection) -> None:
    query = "SELECT id, upper(item) AS item FROM orders WHERE item LIKE 'a%'"
    recording, orders = Recording(), source(tmp_path, INCREMENTING, query=query)
    insert(shop, ("a1", 1), ("b1", 1), ("a2", 1))
    assert orders.splits() == ("query",)
    recording.run(orders, "query")
    assert recording.values() == [{"id": 1, "item": "A1"}, {"id": 3, "item": "A2"}]
    assert recording.records[0].topic == "shop."


def test_any_driver_can_be_used(tmp_path: Path, shop: sqlite3.Connection) -> None:
    config = {**INCREMENTING, "table.whitelist": "orders", "topic.prefix": "", "poll.interval.ms": 1}
    orders = PollingSource(config, connect=lambda: sqlite3.connect(tmp_path / "shop.db"))
    insert(shop, ("a", 1))
    recording = Recording()
    recording.run(orders, "orders")
    assert items(recording) == ["a"]


def test_names_are_quoted(tmp_path: Path, shop: sqlite3.Connection) -> None:
    shop.execute('CREATE TABLE "the ""orders"" %s" ("the id" INTEGER PRIMARY KEY)')
    shop.execute('INSERT INTO "the ""orders"" %s" VALUES (1)')
    mode = {"mode": "incrementing", "incrementing.column.name": "the id", "table.whitelist": 'the "orders" %s'}
    recording = Recording()
    recording.run(source(tmp_path, mode), 'the "orders" %s')
    assert recording.values() == [{"the id": 1}]


def test_rows_that_would_never_be_read_are_an_error(tmp_path: Path, shop: sqlite3.Connection) -> None:
    insert(shop, ("a", None), ("b", 1))
    with pytest.raises(ConnectorError, match="at is null in some rows"):
        Recording().run(source(tmp_path, TIMESTAMP), "orders")
    recording = Recording()
    recording.run(source(tmp_path, {**TIMESTAMP, "validate.non.null": False}), "orders")
    assert items(recording) == ["b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table.whitelist": "missing"}, "no such table"),
        ({"incrementing.column.name": "missing"}, "the result has no column"),
        ({"connection.url": "/nowhere/shop.db"}, "there is no file"),
    ],
)
def test_errors_of_the_database_name_what_was_done(
    tmp_path: Path, shop: sqlite3.Connection, change: dict[str, Any], message: str
) -> None:
    polling = source(tmp_path, {**INCREMENTING, **change})
    with pytest.raises(ConnectorError, match=message) as error:
        Recording().run(polling, polling.splits()[0])
    assert not error.value.may_pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "bulk"}, "'bulk' is not allowed"),
        ({"mode": "timestamp"}, "needs a column"),
        ({"timestamp.column.name": "at"}, "has no effect"),
        ({"query": "SELECT 1"}, "either table.whitelist or query"),
        ({"incrementing.column.nam": "id"}, "unknown setting"),
        ({"connection.url": "mysql://db/shop"}, "neither of PostgreSQL nor of SQLite"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    base = {**INCREMENTING, "connection.url": "shop.db", "table.whitelist": "orders", "topic.prefix": ""}
    with pytest.raises(ConfigError, match=message):
        PollingSource({**base, **change})
