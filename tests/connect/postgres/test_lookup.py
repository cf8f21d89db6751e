"""Look-up joins with tables of PostgreSQL: keys of all types, batches, the cache, misses, errors and retries."""

from __future__ import annotations

import datetime as dt
import pickle
import re
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.connect.postgres.server import Database, PostgresServer

from millstream import App, TestDriver, col
from millstream.connect.postgres.table import PostgresTable, postgres_table
from millstream.errors import ConfigError, ConnectorError, MillstreamError, TopologyError
from millstream.log import ProducerRecord, open_log

PRODUCTS = "create table products (sku text primary key, price numeric, at timestamptz); "


@pytest.fixture
def products(database: Database) -> Database:
    database.execute(PRODUCTS + "insert into products values ('a', 1.50, '2026-01-31'), ('b', 2, null)")
    return database


def table(database: Database, name: str = "products", key: Any = "sku", **options: Any) -> PostgresTable:
    url = f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}"
    return postgres_table(url, name, key=key, **options)


def looked_up(app: App, *values: Any) -> list[Any]:
    with TestDriver(app) as driver:
        for number, value in enumerate(values):
            driver.input("orders").pipe(f"o{number}", value)
        return list(driver.output("out", key=str).read_values())


def test_rows_extend_the_values(products: Database) -> None:
    app = App("shop")
    orders = app.stream("orders").lookup(table(products, columns=["price"]), on=col("sku"))
    orders.map_values(lambda order: {**order, "price": str(order.get("price"))}).to("out")
    assert looked_up(app, {"sku": "a", "n": 1}, {"sku": "x", "n": 2}, {"n": 3, "sku": None}) == [
        {"sku": "a", "n": 1, "price": "1.50"},
        {"sku": "x", "n": 2, "price": "None"},
        {"sku": None, "n": 3, "price": "None"},
    ]


def test_an_inner_look_up_drops_misses_and_a_joiner_takes_the_key(products: Database) -> None:
    app = App("shop")
    found = app.stream("orders").lookup(
        table(products), lambda key, order, row: [key, order["sku"], float(row["price"])], on=col("sku"), how="inner"
    )
    found.to("out")
    assert looked_up(app, {"sku": "a"}, {"sku": "x"}, {"sku": "b"}) == [["o0", "a", 1.5], ["o2", "b", 2.0]]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("int", [1, -2]),
        ("bigint", [2**40]),
        ("numeric", [Decimal("1.50"), 3]),
        ("boolean", [True, False]),
        ("text", ["", "it's", 'a"b\\c{}', "ü,"]),
        ("bytea", [b"", b"\x00\xff"]),
        ("date", [dt.date(2026, 1, 31)]),
        ("uuid", [UUID(int=7), str(UUID(int=8))]),
    ],
)
def test_keys_have_any_type(database: Database, kind: str, keys: list[Any]) -> None:
    database.execute(f"create table keyed (k {kind} primary key, n int)")
    with database.connect() as connection, connection.cursor() as cursor:
        for number, key in enumerate(keys):
            cursor.execute("insert into keyed values (%s, %s)", (str(key) if isinstance(key, UUID) else key, number))
    connection.close()
    assert table(database, "keyed", "k", columns=["n"]).fetch(keys) == {key: {"n": n} for n, key in enumerate(keys)}


def test_keys_of_several_columns_are_tuples(database: Database) -> None:
    database.execute('create schema "my shop"; create table "my shop"."the keys" (a int, "B b" text, n int)')
    database.execute("""insert into "my shop"."the keys" values (1, 'x', 1), (1, 'y', 2), (2, 'x', 3)""")
    found = table(database, "my shop.the keys", ("a", "B b"), columns=["n"]).fetch([(1, "y"), (2, "x"), (2, "y")])
    assert found == {(1, "y"): {"n": 2}, (2, "x"): {"n": 3}}


def test_many_keys_are_looked_up_in_batches_at_the_same_time(database: Database, tmp_path: Path) -> None:
    database.execute("create table numbers as select n as k, n * 2 as twice from generate_series(1, 5000) n")
    data = str(tmp_path / "data")
    with open_log(data) as log:
        log.create_topic("orders")
        log.produce("orders", [ProducerRecord(None, str(n % 6000).encode()) for n in range(12_000)])
    numbers = table(database, "numbers", "k", batch_size=500, concurrency=2)
    app = App("shop", state_dir=data, status="none")
    orders = app.stream("orders", key=bytes, value=str)
    orders.lookup(numbers, lambda n, row: row and row["twice"], on=int, how="inner", value=int).to("out")
    app.run(mode="local", until_caught_up=True)
    with open_log(data) as log:
        rows = log.read("out", 0, 0, 20_000)["value"].to_pylist()
    assert [int.from_bytes(row, "big") for row in rows] == [
        2 * (n % 6000) for n in range(12_000) if 1 <= n % 6000 <= 5000
    ]


def test_rows_and_misses_are_cached(products: Database) -> None:
    for cache, expected in (("1h", ["1.5", None, "1.5", None]), (None, ["1.5", None, "9", "9"])):
        products.execute("delete from products where sku = 'x'; update products set price = 1.5 where sku = 'a'")
        app = App("shop")
        found = app.stream("orders", value=str).lookup(
            table(products),
            lambda _sku, row: row and f"{row['price']:.3g}",
            on=lambda sku: sku,
            cache=cache,
            negative_cache=cache,
        )
        found.to("out", value=object)
        with TestDriver(app) as driver:
            orders = driver.input("orders")
            orders.pipe("o", "a")
            orders.pipe("o", "x")
            products.execute("update products set price = 9; insert into products values ('x', 9, null)")
            orders.pipe("o", "a")
            orders.pipe("o", "x")
            assert driver.output("out").read_values() == expected


def test_a_key_that_does_not_fit_fails_its_own_record(database: Database, tmp_path: Path) -> None:
    database.execute("create table numbers as select n as k, n * 2 as twice from generate_series(1, 9) n")
    app = App("shop", processing_exception_handler="continue")
    numbers = table(database, "numbers", "k")
    app.stream("orders").lookup(numbers, lambda _n, row: row and row["twice"], on=lambda n: n, retry_for="0s").to("out")
    assert looked_up(app, 1, "x", 3) == [2, 6]


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("product", "sku", 'relation "product" does not exist'),
        ("products", "sko", r"has no column 'sko'.*did you mean 'sku'"),
        ("doubles", "k", "has several rows of key 1"),
    ],
)
def test_a_wrong_table_is_named(products: Database, name: str, key: str, message: str) -> None:
    products.execute("create table doubles as select 1 as k from generate_series(1, 2)")
    with pytest.raises(ConnectorError) as caught:
        table(products, name, key).fetch([1])
    assert re.search(message, str(caught.value).replace("\n", " "))


def test_a_look_up_waits_for_a_server_that_restarts(products: Database, postgres: PostgresServer) -> None:
    app = App("shop")
    found = app.stream("orders", value=str).lookup(
        table(products), lambda _sku, row: str(row["price"]), on=lambda sku: sku, cache=None, value=str
    )
    found.to("out")
    with TestDriver(app) as driver:
        driver.input("orders").pipe("o", "a")
        postgres.kill()
        restart = threading.Timer(1, postgres.start)
        restart.start()
        try:
            driver.input("orders").pipe("o", "b")
        finally:
            restart.join()
        assert driver.output("out", value=str).read_values() == ["1.50", "2"]


def test_a_server_that_is_away_fails_records_or_gives_no_rows(products: Database, postgres: PostgresServer) -> None:
    away = postgres_table("postgresql://postgres@127.0.0.1:1/shop", "products", key="sku")
    app = App("shop")
    app.stream("orders").lookup(away, on=col("sku"), retry_for="200ms").to("out")
    with pytest.raises(MillstreamError, match=r"127\.0\.0\.1:1"):
        looked_up(app, {"sku": "a"})
    app = App("shop")
    app.stream("orders").lookup(away, on=col("sku"), retry_for="0s", on_error="null").to("out")
    assert looked_up(app, *[{"sku": str(n)} for n in range(200)]) == [{"sku": str(n)} for n in range(200)]


def test_a_table_is_pickled_without_connections_and_secrets(
    products: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    original = table(products, password="${env:SHOP_PASSWORD}")
    original.fetch(["a"])
    data = pickle.dumps(original)
    assert b"hunter2" not in data
    assert "hunter2" not in repr(original)
    assert pickle.loads(data).fetch(["b"])["b"]["price"] == 2


def test_wrong_arguments_are_refused(products: Database) -> None:
    with pytest.raises(ConfigError, match="does not begin with postgresql://"):
        postgres_table("mysql://host/db", "products", key="sku")
    with pytest.raises(ConfigError, match="key is"):
        postgres_table("postgresql://host/db", "products", key=[])
    stream = App("shop").stream("orders")
    with pytest.raises(TopologyError, match="is not a table for look-ups"):
        stream.lookup("products", on=col("sku"))  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="how is 'outer'"):
        stream.lookup(table(products), on=col("sku"), how="outer")  # type: ignore[arg-type]
