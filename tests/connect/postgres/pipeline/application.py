"""An application between two databases: captured tables → topology → tables of PostgreSQL.

``python application.py DIRECTORY SOURCE_URL TARGET_URL`` runs it until it is killed.

Orders and customers are captured. The application copies both tables, counts and sums the orders of each customer, and
joins each order with the name of its customer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millstream import App, debezium, debezium_key
from millstream.connect.postgres.cdc.source import PostgresSource
from millstream.connect.postgres.sink import PostgresSink

Row = dict[str, Any]


def add(customer: int, order: Row, total: Row) -> Row:
    return {"orders": total["orders"] + 1, "amount": total["amount"] + order["amount"]}


def subtract(customer: int, order: Row, total: Row) -> Row:
    return {"orders": total["orders"] - 1, "amount": total["amount"] - order["amount"]}


def sink(url: str, table: str, key: str) -> PostgresSink:
    return PostgresSink(
        {
            "connection.url": url,
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "primary.key.fields": key,
            "schema.evolution": "basic",
            "collection.name.format": table,
        }
    )


def application(directory: Path, source: str, target: str) -> App:
    url = urlsplit(source)
    app = App(
        "shop",
        config={
            "state.dir": str(directory / "data"),
            "status": "none",
            "commit.interval.ms": 20,
            "restart.backoff.ms": 50,
            "restart.max.attempts": 1_000,
        },
    )
    settings = {
        "database.hostname": url.hostname,
        "database.port": url.port,
        "database.user": url.username,
        "database.dbname": url.path.lstrip("/"),
        "topic.prefix": "shop",
        "slot.name": "shop",
        "table.include.list": "public.orders,public.customers",
        "snapshot.fetch.size": 50,
        "incremental.snapshot.chunk.size": 50,
        "max.batch.size": 64,
    }
    app.connect("capture", PostgresSource(settings), partitions=2, topic_config={"retention.ms": "-1"})
    orders = app.table("shop.public.orders", key=debezium_key("id", type=int), value=debezium(), store="orders")
    customers = app.table(
        "shop.public.customers", key=debezium_key("id", type=int), value=debezium(), store="customers"
    )
    totals = orders.group_by(lambda _id, order: (order["customer"], order), key=int, value=object).aggregate(
        lambda: {"orders": 0, "amount": 0}, add, subtract, store="totals"
    )
    totals.to_stream().to("totals", key=int, value=object)
    named = orders.left_join(
        customers,
        lambda order, customer: {**order, "name": None if customer is None else customer["name"]},
        on=lambda order: order["customer"],
        store="named",
    )
    named.to_stream().to("named", key=int, value=object)
    app.connect("totals", sink(target, "totals", "customer"), topics=["totals"], key=int)
    app.connect("named", sink(target, "named", "id"), topics=["named"], key=int, tasks=2)
    return app


if __name__ == "__main__":
    application(Path(sys.argv[1]), *sys.argv[2:]).run(mode="local")
