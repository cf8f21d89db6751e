"""Tests of the sources of a cluster's records, on Spark; run by `test_sources.py` in a separate process.

A process has one Spark, with the jars of the connector or without. `test_kafka_applications` runs the client's source
without Spark, so most tests here need only the connector.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.kafka import independent
from tests.kafka.copies import check_copies, produce_originals
from tests.kafka.test_security import SCRAM_PASSWORD, Secure, secure

from millstream import App, GlobalTable, tumbling
from millstream.dev.broker import Broker
from millstream.errors import OffsetOutOfRangeError
from millstream.log import ProducerRecord, open_log
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

JARS = os.environ.get("MILLSTREAM_TEST_JARS", "")
SOURCES = ["client", "connector"] if JARS else ["client"]
NOW = int(time.time() * 1000)

one_source = pytest.mark.parametrize("source", SOURCES[-1:], indirect=True)
"""The connector; the client if there are no jars."""

__all__ = ["secure"]

Make = Callable[..., App]


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """The source under test."""
    source: str = request.param
    return source


@pytest.fixture
def make(broker: Broker, tmp_path: Path, source: str) -> Make:
    def app(name: str = "shop", **config: Any) -> App:
        usual = {
            "bootstrap.servers": broker.bootstrap_servers,
            "state.dir": str(tmp_path / "data"),
            "status": "none",
            "kafka.source": source,
            **({"spark.jars": JARS} if JARS else {}),
        }
        return App(name, config={**usual, **config})

    return app


def copying(app: App) -> App:
    app.stream("in", key=str, value=str).to("out")
    return app


def values(broker: Broker, topic: str = "out") -> list[str]:
    return [(message.value() or b"").decode() for message in independent.messages(broker.bootstrap_servers, topic)]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_records_are_copied_completely(broker: Broker, log: KafkaLog, make: Make) -> None:
    produce_originals(log)
    copying(make()).run(until_caught_up=True)
    check_copies(broker.bootstrap_servers)


@one_source
def test_control_records_and_aborted_records_are_skipped(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "log_level": 0})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for index in range(3):
            producer.produce("in", f"{number}{index}", "k")
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    for _round in range(2):  # the second one has only control records to read
        copying(make(**{"max.batch.records": 4, "min.batch.records": 4})).run(until_caught_up=True)
    assert values(broker) == [f"{number}{index}" for number in (0, 2, 4) for index in range(3)]
    assert log.committed("shop") == {("in", 0): log.ends(["in"])["in"][0]}


@pytest.mark.skipif(not JARS, reason="the jars of the connector could not be brought")
@one_source
def test_state_is_kept_after_a_stop_and_with_the_other_source(broker: Broker, log: KafkaLog, make: Make) -> None:
    def counting(**config: Any) -> App:
        app = make(**config)
        counts = app.stream("in", key=str, value=str).group_by_key().count(store="counts")
        counts.to_stream().map_values(str, value=str).to("out")
        return app

    log.create_topic("in", 2)
    for source in ("connector", "client", "connector"):
        log.produce("in", [ProducerRecord(b"k", b"x", NOW), ProducerRecord(b"k", b"y", NOW)])
        counting(**{"kafka.source": source}).run(until_caught_up=True)
    assert values(broker) == [str(number) for number in range(1, 7)]
    assert counting().store("counts").get("k") == 6


def test_topics_and_partitions_added_at_run_time_are_read(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    log.create_topic("out", 1)
    app = make()
    app.stream(pattern="in.*", key=str, value=str).to("out")
    with app.start():
        log.produce("in", [ProducerRecord(b"k", b"a")])
        wait_for(lambda: values(broker) == ["a"])
        log.create_topic("in-2", 2)
        log.produce("in-2", [ProducerRecord(b"k", b"b")], partition=1)
        log.add_partitions("in", 3)
        log.produce("in", [ProducerRecord(b"k", b"c")], partition=2)
        wait_for(lambda: sorted(values(broker)) == ["a", "b", "c"])


@one_source
def test_an_application_starts_at_the_offset_of_a_time(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    log.create_topic("out", 1)
    log.produce("in", [ProducerRecord(b"k", b"old", NOW - 86_400_000), ProducerRecord(b"k", b"new", NOW)])
    copying(make(**{"auto.offset.reset": "by_duration:1h"})).run(until_caught_up=True)
    assert values(broker) == ["new"]


@one_source
def test_records_deleted_before_they_are_read_raise_an_error(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    for value in "abcd":
        log.produce("in", [ProducerRecord(b"k", value.encode(), NOW)])
        if value == "a":
            copying(make()).run(until_caught_up=True)
    end = log.ends(["in"])["in"][0]
    log.delete_records({("in", 0): end - 2})
    with pytest.raises(OffsetOutOfRangeError, match=rf"starts at offset {end - 2}: the records from 2 to"):
        copying(make()).run(until_caught_up=True)
    app = copying(make(**{"data.loss.handler": "continue"}))
    with app.start() as handle:
        wait_for(lambda: values(broker) == ["a", "d"])
        wait_for(lambda: handle.metrics()["dropped"] != {})
        assert handle.metrics()["dropped"] == {"in: lost": end - 4}


@one_source
def test_windows_close_without_further_records(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    log.create_topic("out", 1)
    app = make()
    windows = app.stream("in", key=str, value=str).group_by_key().windowed_by(tumbling("1s", idle="1s"), emit="close")
    windows.count().to_stream(lambda key, _value: key.key).map_values(str, value=str).to("out")
    with app.start():
        log.produce("in", [ProducerRecord(b"k", b"a", 500), ProducerRecord(b"k", b"b", 600)])
        wait_for(lambda: values(broker) == ["2"])


@one_source
def test_global_tables_are_read_first(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 2)
    log.create_topic("names", 1)
    log.produce("in", [ProducerRecord(b"k", b"%d" % number, NOW - 1000) for number in range(3)])
    log.produce("names", [ProducerRecord(b"%d" % number, b"name-%d" % number, NOW) for number in range(3)])
    app = make()
    names: GlobalTable[str, str] = app.global_table("names", key=str, value=str)
    stream = app.stream("in", key=str, value=str)
    stream.join(names, lambda _value, name: name, on=lambda value: value).to("out", value=str)
    app.run(until_caught_up=True)
    assert values(broker) == ["name-0", "name-1", "name-2"]


@pytest.mark.parametrize(
    ("how", "source"),
    [("SCRAM-SHA-256", SOURCES[-1]), *(("mutual", source) for source in SOURCES)],
    indirect=["source"],
)
def test_a_cluster_with_authentication(how: str, secure: Secure, tmp_path: Path, source: str) -> None:
    settings = secure.mutual() if how == "mutual" else secure.sasl(how, SCRAM_PASSWORD, listener="SASL_SSL")
    config = {"state.dir": str(tmp_path / "data"), "status": "none", "spark.jars": JARS, "kafka.source": source}
    name = f"shop-{how.lower()}-{source}"
    app = App(name, config={**config, **settings})
    app.stream(f"{name}-in", key=str, value=str).to(f"{name}-out")
    with open_log(config={**settings, "state.dir": config["state.dir"]}) as log:
        log.create_topic(f"{name}-in", 1)
        log.produce(f"{name}-in", [ProducerRecord(b"k", b"told", NOW)])
        app.run(until_caught_up=True)
        assert log.read(f"{name}-out", 0, 0, 1).column("value").to_pylist() == [b"told"]
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert SCRAM_PASSWORD.encode() not in path.read_bytes(), path
