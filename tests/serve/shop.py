"""A small application with a store of each kind, for tests of the server. It runs locally, without Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millstream import App, Materialized, contract, rule, session, tumbling
from millstream.log import ProducerRecord, open_log

APPLICATION = "shop"

ORDERS = (("north", 3, 1_000), ("south", 2, 5_000), ("north", 4, 30_000), ("north", 1, 70_000), ("west", 0, 71_000))
"""Shop, amount and time of each order. An order without an amount violates the contract."""


def build(data: Path, name: str = APPLICATION, **settings: Any) -> App:
    """Returns the application.

    Args:
        data: Its data directory.
        name: Its application id.
        settings: Further settings, with underscores instead of dots.
    """
    app = App(name, state_dir=str(data), status="none", commit_interval_ms=50, **settings)
    good = contract(rule("an amount", lambda order: order["amount"] > 0), on_violation="quarantine")
    orders = app.stream("orders", key=str, value=dict, contract=good)
    by_shop = orders.group_by(lambda order: order["shop"], key=str)
    by_shop.count(store="orders-of-shop").to_stream().to("counts")
    by_shop.windowed_by(tumbling("1m")).count(store="minutes")
    by_shop.windowed_by(session("10s")).count(store="visits")
    app.table("prices", key=str, value=int, store=Materialized("prices", history="1h"))
    personal = contract(tags={"mail": "pii"})
    app.table("customers", key=int, value=dict, contract=personal, store="customers")
    return app


def create_topics(data: Path) -> None:
    """Creates the input topics."""
    with open_log(data) as log:
        log.create_topic("orders", 2)
        log.create_topic("prices")
        log.create_topic("customers")


def order(shop: str, amount: int = 1, timestamp: int | None = None) -> ProducerRecord:
    """An order, for `Log.produce`."""
    value = json.dumps({"shop": shop, "amount": amount}).encode()
    return ProducerRecord(shop.encode(), value, timestamp)


def customer(number: int, name: str, mail: str, timestamp: int | None = None) -> ProducerRecord:
    """A customer, whose mail address is personal, for `Log.produce`."""
    return ProducerRecord(number.to_bytes(8), json.dumps({"name": name, "mail": mail}).encode(), timestamp)


def write_input(data: Path) -> None:
    """Writes some records of each input topic."""
    with open_log(data) as log:
        log.produce("orders", [order(*each) for each in ORDERS])
        log.produce("prices", [ProducerRecord(b"tea", n.to_bytes(8), t) for n, t in ((3, 1_000), (4, 2_000))])
        log.produce("customers", [customer(1, "Anna", "anna@example.com"), customer(2, "Bo", "bo@example.com")])


def run(data: Path) -> None:
    """Creates the topics and the input, and runs the application until it has processed all of it."""
    create_topics(data)
    write_input(data)
    build(data).run(mode="local", until_caught_up=True)
