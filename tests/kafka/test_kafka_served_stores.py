"""An application on a cluster over HTTP: its rows, whose database is on this machine, topics, groups and SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.servers import Server, start_server, wait_until

from millstream import App, tumbling
from millstream.dev.broker import Broker
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

STORES = "/api/v1/applications/served/stores"


def lag(server: Server) -> int:
    """The lag of the application's group on the topic of events."""
    group = server.viewer.get("/api/v1/groups/served").json()
    return sum(each["lag"] for each in group["offsets"] if each["topic"] == "events")


def test_an_application_on_a_cluster_is_served(broker: Broker, log: KafkaLog, tmp_path: Path) -> None:
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
        topics = {topic["name"]: topic for topic in server.viewer.get("/api/v1/topics").json()["topics"]}
        assert topics["events"]["partitions"] == 2
        assert topics["events"]["records"] >= 6  # and the markers of transactions
        assert topics["served-counts-changelog"]["internal"]
        shown = server.viewer.get("/api/v1/topics/events/records", newest=True, limit=1).json()["records"]
        assert [(record["key"], record["value"], record["timestamp"]) for record in shown] == [("a", "x", 3000)]
        assert lag(server) == 0
        log.produce("events", [ProducerRecord(b"a", b"x")] * 4)
        assert lag(server) >= 4
        sql = server.admin
        wait_until(lambda: sql.post("/ksql", {"ksql": "SHOW STREAMS;"}).status == 200, "the start of SQL", 100)
        statement = "CREATE STREAM e (k STRING KEY, v STRING) WITH (kafka_topic='events', value_format='KAFKA');"
        assert sql.post("/ksql", {"ksql": statement}).json()[0]["commandStatus"]["status"] == "SUCCESS"
        assert sql.post("/ksql", {"ksql": "SHOW STREAMS;"}).json()[0]["streams"][0]["topic"] == "events"
    with start_server(tmp_path / "elsewhere", config=servers) as server:
        answer = server.viewer.get(f"{STORES}/counts/rows", key="a")
        assert answer.status == 404
        assert "their rows are on the machine of the application" in answer.message
