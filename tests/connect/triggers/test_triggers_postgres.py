"""Capture by triggers in PostgreSQL: concurrent transactions, which commit in another order than they began."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.connect.postgres.server import Database
from tests.connect.recording import Recording
from tests.connect.triggers.tables import applied, operations

from millstream.connect.triggers import TriggerSource
from millstream.errors import ConfigError, ConnectorError

CREATE = "CREATE TABLE orders (id bigint PRIMARY KEY, item text)"


def source(database: Database, tables: str = "public.orders", **settings: Any) -> TriggerSource:
    url = f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}"
    named = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"connection.url": url, "topic.prefix": "shop", "poll.interval.ms": 1, "table.include.list": tables}
    return TriggerSource({**base, **named})


def read(recording: Recording, orders: TriggerSource, count: int, draw: random.Random | None = None) -> None:
    """Reads until there are so many records."""
    recording.run(orders, until=lambda: len(recording.records) >= count, draw=draw)


def test_each_change_is_an_event_and_what_is_rolled_back_is_none(database: Database) -> None:
    database.execute(CREATE)
    orders, recording = source(database), Recording()
    orders.install()
    database.execute("INSERT INTO orders VALUES (1, 'a')")
    database.execute("BEGIN; INSERT INTO orders VALUES (2, 'never'); ROLLBACK")
    database.execute("UPDATE orders SET item = 'b'")
    database.execute("UPDATE orders SET id = 9")
    database.execute("DELETE FROM orders")
    database.execute("TRUNCATE orders")
    read(recording, orders, 7)
    assert operations(recording.records) == [
        ({"id": 1}, "c"),
        ({"id": 1}, "u"),
        ({"id": 1}, "d"),
        ({"id": 1}, None),
        ({"id": 9}, "c"),
        ({"id": 9}, "d"),
        ({"id": 9}, None),
    ]
    assert recording.records[0].topic == "shop.public.orders"
    origin = recording.records[1].value["source"]
    assert (origin["db"], origin["schema"], origin["table"]) == (database.name, "public", "orders")
    assert origin["txId"] > recording.records[0].value["source"]["txId"]


def test_a_row_that_two_transactions_change_keeps_the_order_of_their_commits(database: Database) -> None:
    """The transaction with the smaller id changes the row last: an order by ids would be wrong."""
    database.execute(CREATE)
    database.execute("CREATE TABLE other (id bigint PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'a')")
    orders, recording = source(database, "public.orders,public.other"), Recording()
    orders.install()
    early, late = database.connect(), database.connect()
    early.autocommit = late.autocommit = False
    with early.cursor() as first, late.cursor() as second:
        first.execute("INSERT INTO other VALUES (1, 'takes the smaller id')")
        second.execute("UPDATE orders SET item = 'b'")
        late.commit()
        polls = iter(range(30))
        recording.run(orders, until=lambda: next(polls, None) is None)
        assert recording.records == []  # the transaction that runs may still write smaller numbers
        first.execute("UPDATE orders SET item = 'c'")
        early.commit()
    early.close()
    late.close()
    read(recording, orders, 3)
    items = [r.value["after"]["item"] for r in recording.records if r.topic == "shop.public.orders"]
    assert items == ["b", "c"]


def test_concurrent_transactions_and_stops_at_any_point_lose_and_double_nothing(database: Database) -> None:
    database.execute(CREATE)
    draw = random.Random(4)
    orders, recording = source(database, max_batch_size=3), Recording()
    orders.install()
    writers = [database.connect() for _writer in range(4)]
    for writer in writers:
        writer.autocommit = False
    owners: dict[int, int] = {}  # who holds the lock of a row: this thread must not wait for itself
    for _step in range(200):
        number = draw.randrange(4)
        if draw.random() < 0.3:
            draw.choice([writers[number].commit, writers[number].commit, writers[number].rollback])()
            owners = {key: owner for key, owner in owners.items() if owner != number}
        else:
            key = draw.randrange(12)
            if owners.setdefault(key, number) != number:
                continue
            statement = draw.choice(
                [
                    "INSERT INTO orders VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
                    "WITH gone AS (DELETE FROM orders WHERE id = %s) SELECT %s",
                ]
            )
            with writers[number].cursor() as cursor:
                cursor.execute(statement, (key, str(draw.random())))
        if draw.random() < 0.15:
            polls = iter(range(5))
            recording.run(orders, until=lambda polls=polls: next(polls, None) is None, draw=draw)  # type: ignore[misc]
    for writer in writers:
        writer.commit()
        writer.close()
    rows = {f'{{"id": {key}}}': {"id": key, "item": item} for key, item in database.execute("SELECT * FROM orders")}
    left = "SELECT count(*) FROM millstream_changes WHERE sequence > 0"
    recording.run(orders, until=lambda: database.execute(left) == [(0,)], draw=draw)
    assert applied(recording.records) == rows


def test_threads_that_change_the_same_rows_are_followed_in_the_order_of_their_commits(database: Database) -> None:
    database.execute(CREATE)
    orders, recording = source(database, max_batch_size=50), Recording()
    orders.install()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        writer = database.connect()
        writer.autocommit = False
        for _transaction in range(60):
            with writer.cursor() as cursor:
                for key in sorted(draw.sample(range(6), draw.randrange(1, 4))):  # sorted: no deadlocks
                    statement = draw.choice(
                        [
                            "INSERT INTO orders VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
                            "WITH gone AS (DELETE FROM orders WHERE id = %s) SELECT %s",
                        ]
                    )
                    cursor.execute(statement, (key, str(draw.random())))
            draw.choice([writer.commit, writer.commit, writer.commit, writer.rollback])()
        writer.rollback()
        writer.close()

    with ThreadPoolExecutor(5) as pool:
        working = [pool.submit(work, seed) for seed in range(5)]
        recording.run(orders, until=lambda: all(each.done() for each in working), draw=random.Random(1))
        for each in working:
            each.result()
    left = "SELECT count(*) FROM millstream_changes WHERE sequence > 0"
    recording.run(orders, until=lambda: database.execute(left) == [(0,)])
    rows = {f'{{"id": {key}}}': {"id": key, "item": item} for key, item in database.execute("SELECT * FROM orders")}
    assert applied(recording.records) == rows


def test_values_have_the_types_of_their_columns(database: Database) -> None:
    database.execute(
        "CREATE TABLE orders (id uuid PRIMARY KEY, n numeric, f double precision, i bigint, b bytea, t timestamptz, "
        "j jsonb, l text[], x text, g boolean)"
    )
    orders, recording = source(database), Recording()
    orders.install()
    key = "a0000000-0000-4000-8000-00000000000a"
    database.execute(
        "SET timezone = 'Asia/Tokyo'; SET bytea_output = 'escape';"
        f"INSERT INTO orders VALUES ('{key}', 12345678901234567890.50, 5, 9007199254740993, '\\x00ff', "
        "'2024-02-29 12:00:00+00', '{\"a\": [1.5]}', '{a,b}', E'\\t\"', true), "
        "('a0000000-0000-4000-8000-00000000000b', 'NaN', 'Infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    read(recording, orders, 2)
    assert recording.records[0].value["after"] == {
        "id": key,
        "n": "12345678901234567890.50",
        "f": 5.0,
        "i": 9007199254740993,
        "b": b"\0\xff",
        "t": "2024-02-29T12:00:00+00:00",
        "j": {"a": [1.5]},
        "l": ["a", "b"],
        "x": '\t"',
        "g": True,
    }
    second = recording.records[1].value["after"]
    assert (second["n"], second["f"], second["b"]) == ("NaN", float("inf"), None)


def test_writers_need_no_rights_on_the_change_table(database: Database) -> None:
    database.execute(
        "DO $$ BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        "CREATE TABLE orders (a bigint, b bigint, PRIMARY KEY (b, a)); GRANT ALL ON orders TO clerk"
    )
    orders, recording = source(database), Recording()
    orders.install()
    clerk = database.connect("clerk")
    with clerk.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE millstream_changes (a int)")  # it must not catch the changes
        cursor.execute("INSERT INTO orders VALUES (1, 2)")
    clerk.close()
    read(recording, orders, 1)
    assert [list(record.key.items()) for record in recording.records] == [[("b", 2), ("a", 1)]]


def test_columns_that_are_added_are_captured_and_truncate_can_be_emitted(database: Database) -> None:
    database.execute(CREATE)
    orders, recording = source(database, skipped_operations="none"), Recording()
    orders.install()
    database.execute("ALTER TABLE orders ADD COLUMN more numeric")
    database.execute("INSERT INTO orders VALUES (1, 'a', 1.50)")
    database.execute("TRUNCATE orders")
    read(recording, orders, 2)
    assert recording.records[0].value["after"]["more"] == "1.50"
    assert operations(recording.records) == [({"id": 1}, "c"), (None, "t")]


def test_changes_of_partitions_belong_to_their_table(database: Database) -> None:
    database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (20)"
    )
    orders, recording = source(database, "orders"), Recording()
    orders.install()
    database.execute("INSERT INTO orders VALUES (1, 'a')")
    database.execute("UPDATE orders SET id = 11")  # the row moves to another partition
    read(recording, orders, 4)
    assert {record.topic for record in recording.records} == {"shop.public.orders"}
    assert operations(recording.records) == [({"id": 1}, "c"), ({"id": 1}, "d"), ({"id": 1}, None), ({"id": 11}, "c")]


def test_install_can_be_repeated_and_removed(database: Database) -> None:
    database.execute(CREATE)
    database.execute('CREATE SCHEMA s; CREATE TABLE s."the ""%s" (id int)')
    orders = source(database, 'public.orders,s.the "%s')
    orders.install()
    orders.install()
    database.execute("INSERT INTO orders VALUES (1, 'a')")
    database.execute('INSERT INTO s."the ""%s" VALUES (1)')
    recording = Recording()
    read(recording, orders, 2)
    assert [record.topic for record in recording.records] == ["shop.public.orders", 'shop.s.the "%s']
    orders.remove()
    assert database.execute("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]
    database.execute("INSERT INTO orders VALUES (2, 'a')")
    with pytest.raises(ConnectorError, match="there is no change table"):
        read(recording, orders, 3)
    with pytest.raises(ConfigError, match=r"there is no table public\.missing"):
        source(database, "public.missing").install()
    orders.install()
    with pytest.raises(ConnectorError, match="was created anew"):
        read(recording, orders, 3)
