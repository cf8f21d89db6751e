"""A SQLite table becomes a PostgreSQL table: triggers, a topic and the sink, with the runtime between them."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.connect.postgres.sink.sinks import UPSERT, query, sink_of

from millstream import App
from millstream.connect.postgres.client import Server
from millstream.connect.triggers import TriggerSource
from millstream.log import open_log


def source_of(tmp_path: Path) -> TriggerSource:
    return TriggerSource(
        {"connection.url": f"sqlite:{tmp_path}/shop.db", "table.include.list": "orders", "topic.prefix": "shop"}
    )


def replicate(tmp_path: Path, database: Server) -> None:
    """Runs the application until the target has all changes."""
    app = App("replica", config={"state.dir": str(tmp_path / "data"), "status": "none"})
    app.connect("shop", source_of(tmp_path))
    target = {**UPSERT, "schema.evolution": "basic", "collection.name.format": "${source.table}"}
    app.connect("target", sink_of(database, target), topics=["shop.orders"], key="json", tasks=2)
    app.run(until_caught_up=True)


def test_the_target_equals_the_source_after_each_run(database: Server, tmp_path: Path) -> None:
    draw = random.Random(9)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price)")
        source_of(tmp_path).install()
        with open_log(tmp_path / "data") as log:
            log.create_topic("shop.orders", partitions=3)
        for _run in range(4):
            for _change in range(200):
                statement = draw.choice(
                    [
                        "INSERT INTO orders VALUES (:id, :item, :price) ON CONFLICT (id) DO UPDATE SET item = :item",
                        "UPDATE orders SET price = :price WHERE id = :id",
                        "UPDATE OR IGNORE orders SET id = :id + 1 WHERE id = :id",
                        "DELETE FROM orders WHERE id = :id",
                    ]
                )
                price = draw.choice([None, draw.randrange(100), draw.random()])
                item = draw.choice(["tab\t", "line\n", "\\N", "pen", "ü"])
                shop.execute(statement, {"id": draw.randrange(30), "item": item, "price": price})
            replicate(tmp_path, database)
            rows = shop.execute("SELECT id, item, price FROM orders ORDER BY id").fetchall()
            assert query(database, "SELECT id, item, price::double precision FROM orders ORDER BY id") == rows
