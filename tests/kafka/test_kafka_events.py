"""Event streams of a server of a Kafka cluster: the changelog of a store, and a topic with transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve import shop
from tests.serve.events import EVENTS, begun, of_kind, take
from tests.serve.servers import start_server

from millstream.dev.broker import Broker
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog
from millstream.runtime.lifecycle import State

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


def test_a_stream_follows_changes_and_continues_after_its_last_event(
    broker: Broker, log: KafkaLog, tmp_path: Path
) -> None:
    for topic, partitions in (("orders", 2), ("prices", 1), ("customers", 1)):
        log.create_topic(topic, partitions)
    data = tmp_path / "data"
    channels = ["store:shop/orders-of-shop", "topic:counts", 'key:shop/orders-of-shop/"north"']
    app = shop.build(data, bootstrap_servers=broker.bootstrap_servers)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    with app.start(mode="local") as handle:
        assert handle.wait_for({State.RUNNING}, 60)
        with start_server(data, config=config) as server:
            with server.viewer.events(EVENTS, channel=channels) as events:
                begun(events)
                log.produce("orders", [shop.order("north", timestamp=1)])
                first = take(events, 3)
            assert {event.kind for event in first} == {"store", "topic", "key"}
            assert {event.data["value"] for event in first} == {1}
            for number in (2, 3):
                log.produce("orders", [shop.order("north", timestamp=number)])
            with server.viewer.events(EVENTS, channel=channels, last_event_id=first[-1].id) as events:
                counts: dict[str, list[int]] = {}
                while any(counts.get(kind, [0])[-1] < 3 for kind in ("store", "topic", "key")):
                    (event,) = take(events, 1)
                    counts.setdefault(event.kind, []).append(event.data["value"])
            # The two orders can be in one commit, which has the last count only.
            assert counts["topic"] in ([2, 3], [3])
            assert counts["store"] == counts["key"]
            assert counts["store"] in ([2, 3], [3])
        log.produce("prices", [ProducerRecord(b"tea", number.to_bytes(8), number) for number in range(500)])
        with (
            start_server(data, config=config) as server,
            server.viewer.events(EVENTS, channel=["topic:prices@start"]) as events,
        ):
            assert [event.data["value"] for event in of_kind(events, "topic", 500)] == [*range(500)]
            log.produce("prices", [ProducerRecord(b"tea", (500).to_bytes(8), 500)])
            assert of_kind(events, "topic")[0].data["value"] == 500
