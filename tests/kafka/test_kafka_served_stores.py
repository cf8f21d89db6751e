"""Rows over HTTP of an application on a cluster: its views are a database of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.servers import start_server

from millstream import App, tumbling
from millstream.dev.broker import Broker
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

STORES = "/api/v1/applications/served/stores"


def test_the_stores_of_an_application_on_a_cluster_are_read(broker: Broker, log: KafkaLog, tmp_path: Path) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    data = tmp_path / "data"
    app = App("served", config={"state.dir": str(data), "status": "none", **servers})
    by_key = app.stream("events", key=str, value=str).group_by_key()
    by_key.count(store="counts")
    by_key.windowed_by(tumbling("1m")).count(store="minutes")
    log.create_topic("events", 2)
    positions = []
    with start_server(data, config=servers) as server:
        for expected in (3, 6):
            log.produce("events", [ProducerRecord(b"a", b"x", timestamp=1000 * n) for n in (1, 2, 3)])
            app.run(mode="local", until_caught_up=True)
            answer = server.viewer.get(f"{STORES}/counts/rows", key="a").json()
            assert [row["value"] for row in answer["rows"]] == [expected]
            assert answer["age_ms"] >= 0
            positions.append(answer["position"])
            (window,) = server.viewer.get(f"{STORES}/minutes/rows").json()["rows"]
            assert (window["value"], window["window"]) == (expected, {"start": 0, "end": 60_000})
            assert server.viewer.get("/state/keyvalue/counts/a").json() == {"key": "a", "value": expected}
        assert 0 < positions[0] < positions[1]
    with start_server(tmp_path / "elsewhere", config=servers) as server:
        answer = server.viewer.get(f"{STORES}/counts/rows", key="a")
        assert answer.status == 404
        assert "their rows are on the machine of the application" in answer.message
