"""An application with stores of many kinds of keys and values, for tests of queries. It runs locally, without Java."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream import App, Materialized, avro, hopping, json_schema
from millstream.log import ProducerRecord, open_log
from millstream.schemas.registries import registry_of
from millstream.serde import SerdeContext

APPLICATION = "kinds"

HOSTILE = [
    "",
    " ",
    "a/b",
    "../..",
    "%2e%2e%2f",
    "a?b#c&d=e",
    "<script>alert(1)</script>",
    "'; DROP TABLE view_rows; --",
    "\x00",
    "line\nbreak",
    "é\U0001f600",
    "x" * 4000,
    "null",
    "5",
    '["a"]',
]
"""Keys that a path, a query, SQL or JSON could take for something else."""

NUMBERS = [-(2**63), -1, 0, 1, 2**63 - 1]
IDENTITY = uuid.UUID("12345678-1234-5678-1234-567812345678")


@dataclass
class Place:
    country: str
    zone: int


@dataclass
class Order:
    id: str
    quantity: int = 1


def build(data: Path) -> App:
    """Returns the application."""
    app = App(APPLICATION, state_dir=str(data), status="none", commit_interval_ms=50)
    app.table("texts", key=str, value=str, store="texts")
    app.table("numbers", key=int, value=str, store="numbers")
    app.table("pairs", key=list, value=dict, store="pairs")
    app.table("places", key=Place, value=float, store="places")
    app.table("blobs", key=bytes, value=bytes, store="blobs")
    app.table("identities", key=uuid.UUID, value=bool, store="identities")
    app.table("orders", key=avro(Place), value=avro(Order), store="orders")
    app.table("checked", key=str, value=json_schema(Order), store="checked")
    app.table("raw", key=str, value="json", store="raw")
    events = app.stream("events", key=str, value=int)
    counts = events.group_by_key().windowed_by(hopping("1m", "20s")).count(store="hops")
    counts.filter(lambda _count: True, store="windowed")
    app.table("rates", key=str, value=float, store=Materialized("rates", history="1h"))
    return app


def run(data: Path) -> None:
    """Creates the topics and their records, and runs the application until it has processed all of them."""
    app = build(data)
    with open_log(data) as log:
        for topic in ("texts", "numbers", "pairs", "places", "blobs", "identities", "orders", "checked", "raw"):
            log.create_topic(topic, 2)
        log.create_topic("events", 3)
        log.create_topic("rates")
        log.produce("texts", [ProducerRecord(key.encode(), f"of {key!r}".encode(), 1) for key in HOSTILE])
        log.produce("numbers", [ProducerRecord(struct.pack(">q", key), str(key).encode(), 1) for key in NUMBERS])
        pairs = [b'["a",1]', b'["a",12]', b'["ab",1]', b"[]", b'{"b":1}', b"null", b"1.5"]
        log.produce("pairs", [ProducerRecord(key, b'{"n":1,"big":9007199254740993}', 1) for key in pairs[:4]])
        log.produce(
            "places",
            [
                ProducerRecord(b'{"country":"de","zone":1}', struct.pack(">d", value), 1)
                for value in (1.5, float("nan"))
            ],
        )
        log.produce("blobs", [ProducerRecord(b"\x00\xff", b"\xff", 1), ProducerRecord(b"\x01", b"\x02", 1)])
        log.produce("identities", [ProducerRecord(str(IDENTITY).encode(), b"\x01", 1)])
        log.produce(
            "events",
            [
                ProducerRecord(key, struct.pack(">q", 1), time)
                for key, time in ((b"a", 70_000), (b"b", 75_000), (b"a", 90_000))
            ],
        )
        log.produce(
            "rates",
            [
                ProducerRecord(b"eur", struct.pack(">d", rate), time)
                for rate, time in ((1.1, 1000), (1.2, 2000), (1.3, 3000))
            ],
        )
        log.produce("rates", [ProducerRecord(b"usd", struct.pack(">d", 1.0), 1500), ProducerRecord(b"usd", None, 2500)])
    _write_with_schemas(app, data)
    app.run(mode="local", until_caught_up=True)


def _write_with_schemas(app: App, data: Path) -> None:
    reference = registry_of(app.id, app.config)
    with open_log(data) as log:

        def bound(serde: Any, topic: str, *, is_key: bool) -> Any:
            return serde.bind(SerdeContext(topic, is_key, reference))

        key = bound(avro(Place), "orders", is_key=True).serialize(Place("fr", 2))
        value = bound(avro(Order), "orders", is_key=False).serialize(Order("o-1", 3))
        log.produce("orders", [ProducerRecord(key, value, 1)])
        checked = bound(json_schema(Order), "checked", is_key=False).serialize(Order("o-2", 4))
        log.produce("checked", [ProducerRecord(b"k", checked, 1)])
