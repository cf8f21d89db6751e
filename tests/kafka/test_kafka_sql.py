"""Persistent queries of SQL on a broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from millstream.dev.broker import Broker
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.properties import RequestSession

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


def await_records(log: KafkaLog, topic: str, count: int) -> list[tuple[bytes, dict[str, int]]]:
    """The records of a topic, once it has so many."""
    deadline = time.monotonic() + 120
    found: list[tuple[bytes, dict[str, int]]] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{topic} has only {len(found)} of {count} records"
        table = log.read(topic, 0, 0, log.ends([topic])[topic][0])
        found = list(zip(table["key"].to_pylist(), map(json.loads, table["value"].to_pylist()), strict=True))
    return found


def test_queries_continue_after_a_restart_with_exact_results(log: KafkaLog, broker: Broker, tmp_path: Path) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "state.dir": str(tmp_path / "sql")}
    session = RequestSession({"auto.offset.reset": "earliest"})
    with SqlServer(config) as server:
        server.handler.statements(
            "CREATE STREAM s (k STRING KEY, n INT) WITH (kafka_topic='in', value_format='JSON', partitions=1);"
            "CREATE TABLE c AS SELECT k, COUNT(*) AS v FROM s GROUP BY k;"
            "CREATE STREAM p AS SELECT k, n + 1 AS v FROM s;"
            "CREATE STREAM paused AS SELECT k, n AS v FROM s; PAUSE CSAS_PAUSED_3;",
            session,
        )
        log.produce("in", [ProducerRecord(b"k%d" % (n % 3), b'{"N": %d}' % n) for n in range(60)])
        await_records(log, "C", 60)
    log.produce("in", [ProducerRecord(b"k%d" % (n % 3), b'{"N": %d}' % n) for n in range(60, 90)])
    with SqlServer(config) as server:
        catalog = server.session.catalog
        states = {id_: server.deployment.state(query) for id_, query in catalog.queries.items()}
        assert states == {"CTAS_C_1": "RUNNING", "CSAS_P_2": "RUNNING", "CSAS_PAUSED_3": "PAUSED"}
        counts = await_records(log, "C", 90)
        assert [value["V"] for _key, value in await_records(log, "P", 90)] == list(range(1, 91))
        answer = server.handler.query("SELECT * FROM c WHERE k = 'k1';", session)
        rows = answer.poll()
        deadline = time.monotonic() + 60
        while [row.values for row in rows] != [("k1", 30)] and time.monotonic() < deadline:  # views follow the topics
            rows = server.handler.query("SELECT * FROM c WHERE k = 'k1';", session).poll()
        assert [row.values for row in rows] == [("k1", 30)]
    assert sorted(Counter((key, value["V"]) for key, value in counts).values()) == [1] * 90
    assert log.ends(["PAUSED"])["PAUSED"] == [0]
