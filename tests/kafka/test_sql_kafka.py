"""SQL on a Kafka cluster, with Avro and a schema registry: a script that is killed gives each result once.

The first script runs in real-time mode on Spark, is killed, and continues there; the second one
reads what it has written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.registry.conftest import apicurio_server  # noqa: F401  (a fixture)

from millstream.config import Config
from millstream.dev.broker import Broker
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog
from millstream.registry.confluent.registry import ConfluentRegistry
from millstream.schemas.registries import registry_for
from millstream.serde import SerdeContext
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats import FormatSerde
from millstream.sql.types import BIGINT, INTEGER, STRING

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

BOOKED = """
    CREATE STREAM orders (id STRING KEY, customer STRING, amount INT) WITH (kafka_topic='orders', value_format='AVRO');
    CREATE STREAM booked AS SELECT id, customer, amount FROM orders WHERE amount > 0;
"""
TOTALS = """
    CREATE STREAM booked (id STRING KEY, customer STRING, amount INT) WITH (kafka_topic='BOOKED', value_format='AVRO');
    CREATE TABLE totals AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM booked GROUP BY customer;
"""
RECORDS, CUSTOMERS = 20_000, 7


class Scripts:
    """Runs scripts in processes, on a cluster and a registry."""

    def __init__(self, directory: Path, broker: Broker, registry_url: str) -> None:
        self.directory = directory
        settings = {"bootstrap.servers": broker.bootstrap_servers, "schema.registry.url": registry_url}
        self.settings = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def start(self, name: str, script: str, mode: str, *options: str) -> subprocess.Popen[bytes]:
        path = self.directory / f"{name}.sql"
        path.write_text(script, encoding="utf-8")
        command = ["run", str(path), mode, "--status", "none", "--data", str(self.directory / "data"), *options]
        return subprocess.Popen(
            [sys.executable, "-m", "millstream", *command, *self.settings],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip

    def finish(self, name: str, script: str, mode: str) -> None:
        """Runs a script until it has caught up."""
        process = self.start(name, script, mode, "--until-caught-up")
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()


def produce(log: KafkaLog, values: FormatSerde, first: int, last: int) -> None:
    rows = ((n, {"CUSTOMER": f"c{n % CUSTOMERS}", "AMOUNT": n % 5}) for n in range(first, last))
    log.produce("orders", [ProducerRecord(b"o%d" % n, values.serialize(row), n) for n, row in rows])


def read(log: KafkaLog, topic: str) -> list[dict[str, Any]]:
    return [row for p, end in enumerate(log.ends([topic])[topic]) for row in log.read(topic, p, 0, end).to_pylist()]


def written(log: KafkaLog) -> int:
    return len(read(log, "BOOKED")) if "BOOKED" in {topic.name for topic in log.topics()} else 0


def test_a_script_that_is_killed_writes_each_avro_record_once_and_another_one_reads_them(
    broker: Broker,
    log: KafkaLog,
    tmp_path: Path,
    apicurio_server: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    scripts = Scripts(tmp_path, broker, apicurio_server.url)
    with_schemas = registry_for(ConfluentRegistry(Config({"schema.registry.url": apicurio_server.url})), Config())

    def avro(topic: str, *columns: Column) -> FormatSerde:
        return FormatSerde(FormatInfo("AVRO"), columns, is_key=False).bind(SerdeContext(topic, False, with_schemas))

    orders = avro("orders", Column("CUSTOMER", STRING), Column("AMOUNT", INTEGER))
    log.create_topic("orders", 3)
    produce(log, orders, 0, 100)
    process = scripts.start("booked", BOOKED, "--real-time")
    try:
        deadline = time.monotonic() + 120
        while written(log) == 0:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        produce(log, orders, 100, RECORDS // 2)
        time.sleep(0.2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    produce(log, orders, RECORDS // 2, RECORDS)
    scripts.finish("booked", BOOKED, "--real-time")
    scripts.finish("totals", TOTALS, "--local")

    wanted = [n for n in range(RECORDS) if n % 5 > 0]
    booked = read(log, "BOOKED")
    assert Counter(row["key"] for row in booked) == Counter(b"o%d" % n for n in wanted)
    values = avro("BOOKED", Column("CUSTOMER", STRING), Column("AMOUNT", INTEGER))
    rows = {row["key"]: values.deserialize(row["value"]) for row in booked}
    assert rows == {b"o%d" % n: {"CUSTOMER": f"c{n % CUSTOMERS}", "AMOUNT": n % 5} for n in wanted}
    totals = avro("TOTALS", Column("N", BIGINT), Column("TOTAL", INTEGER))
    last = {row["key"]: totals.deserialize(row["value"]) for row in read(log, "TOTALS")}
    by_customer = {b"c%d" % c: [n % 5 for n in wanted if n % CUSTOMERS == c] for c in range(CUSTOMERS)}
    assert last == {customer: {"N": len(each), "TOTAL": sum(each)} for customer, each in by_customer.items()}
