"""The log of a real broker: topics, records, positions and groups."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.kafka.opening import open_kafka_log
from tests.unit.log.helpers import record, rows

from millstream.core.partitioning import partition_for
from millstream.dev.broker import Broker
from millstream.errors import (
    BrokerError,
    ConfigError,
    InvalidNameError,
    OffsetOutOfRangeError,
    RecordRefusedError,
    TopicExistsError,
    UnknownGroupError,
    UnknownTopicError,
)
from millstream.log import Append, ProducerRecord
from millstream.log.blocks import decode_headers, encode
from millstream.log.kafka import KafkaLog
from millstream.log.kafka.clients import Clients

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def test_topics_are_created_changed_and_deleted(log: KafkaLog) -> None:
    assert log.topics() == []
    made = log.create_topic("orders", 2, {"cleanup.policy": "compact"})
    assert made == ("orders", 2, {"cleanup.policy": "compact"}, False)
    log.create_topic("shop-counts-changelog")
    assert [(topic.name, topic.internal) for topic in log.topics()] == [
        ("orders", False),
        ("shop-counts-changelog", True),
    ]
    assert log.create_topic("orders", 5, exist_ok=True) == made
    with pytest.raises(TopicExistsError, match="topic 'orders' exists already"):
        log.create_topic("orders")
    assert log.add_partitions("orders", 3).partitions == 3
    with pytest.raises(ConfigError, match="has 3 partitions already"):
        log.add_partitions("orders", 2)
    altered = log.alter_topic("orders", {"retention.ms": "60000", "cleanup.policy": None})
    assert altered.config == {"retention.ms": "60000"}
    log.delete_topic("orders")
    with pytest.raises(UnknownTopicError, match="there is no topic 'orders'"):
        log.topic("orders")


def test_consumers_are_reused_for_other_partitions(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches read different partitions of a wide topic: a new consumer for each would have to connect."""
    made = []
    usual = Clients.consumer

    def consumer(clients: Clients, *arguments: Any) -> Any:
        made.append(arguments)
        return usual(clients, *arguments)

    log.create_topic("wide", 40)
    for partition in range(40):
        log.produce("wide", [record(f"key-{partition}", f"value-{partition}")] * 3, partition=partition)
    monkeypatch.setattr(Clients, "consumer", consumer)
    for start, end in ((0, 1), (1, 3)):
        for partition in range(40):
            values = log.read("wide", partition, start, end)["value"].to_pylist()
            assert values == [f"value-{partition}".encode()] * (end - start)
    assert len(made) == 32


def test_topics_deleted_during_a_listing_are_left_out(broker: Broker, log: KafkaLog) -> None:
    names = [f"topic-{number}" for number in range(40)]
    for name in names:
        log.create_topic(name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    deleted = admin.delete_topics(names)
    deadline = time.monotonic() + 60
    while log.topics():
        assert time.monotonic() < deadline
    for future in deleted.values():
        future.result(60)


def test_invalid_operations_on_topics_are_refused(log: KafkaLog) -> None:
    with pytest.raises(InvalidNameError):
        log.create_topic("a b")
    with pytest.raises(ConfigError, match=r"Unknown topic config name: cleanup\.polici"):
        log.create_topic("orders", 1, {"cleanup.polici": "compact"})
    with pytest.raises(ConfigError):
        log.create_topic("orders", 0)
    log.create_topic("orders", 2)
    with pytest.raises(UnknownTopicError, match="there is no topic 'ordrs'") as caught:
        log.topic("ordrs")
    assert caught.value.hint == "did you mean 'orders'?"
    with pytest.raises(UnknownTopicError, match="there is no topic ''"):
        log.topic("")
    with pytest.raises(UnknownTopicError, match="topic 'orders' has no partition 2"):
        log.read("orders", 2, 0, 1)
    for call in (log.ends, log.starts):
        with pytest.raises(UnknownTopicError):
            call(["ordrs"])


def test_records_are_read_unchanged(log: KafkaLog) -> None:
    log.create_topic("t")
    headers = (("trace", b"1"), ("none", None), ("trace", b""))
    records = [
        ProducerRecord(b"k", b"v", 5, headers),
        ProducerRecord(None, b"", 7),
        ProducerRecord(b"", None, 1_700_000_000_000),
    ]
    (produced,) = log.produce("t", records)
    assert produced == (0, 0, 3)
    table = log.read("t", 0, 0, 3)
    assert table["key"].to_pylist() == [b"k", None, b""]
    assert table["value"].to_pylist() == [b"v", b"", None]
    assert table["timestamp"].to_pylist() == [5, 7, 1_700_000_000_000]
    assert [decode_headers(data) for data in table["headers"].to_pylist()] == [headers, (), ()]


def test_keys_are_partitioned_as_by_java_clients(log: KafkaLog) -> None:
    log.create_topic("t", 5)
    keys = [b"key-%d" % number for number in range(100)]
    log.produce("t", [ProducerRecord(key, b"v", 1) for key in keys])
    partitions = {key: number for number in range(5) for _, key, _ in rows(log, "t", number)}
    assert partitions == {key.decode(): partition_for(key, 5) for key in keys}


def test_a_range_with_control_records_is_read_completely(log: KafkaLog, broker: Broker) -> None:
    log.create_topic("t")
    for number in range(5):
        log.produce("t", [record("k", str(number), 1)])  # each adds a control record
    aborted = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "log_level": 0})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce("t", b"never", b"k")
    aborted.flush()
    assert rows(log, "t") == [(number * 2, "k", str(number)) for number in range(5)]
    aborted.abort_transaction(30)
    log.produce("t", [record("k", "5", 1)])
    assert [value for *_, value in rows(log, "t")] == ["0", "1", "2", "3", "4", "5"]
    (end,) = log.ends(["t"])["t"]
    for start in range(end):
        for stop in range(start, end + 1):
            wanted = [value for offset, _, value in rows(log, "t") if start <= offset < stop]
            assert [value.as_py().decode() for value in log.read("t", 0, start, stop)["value"]] == wanted
    assert len(log.read("t", 0, end, end + 10)) == 0
    assert len(log.read("t", 0, 0, end + 10)) == 6


def test_consecutive_ranges_of_control_records_only_are_empty(log: KafkaLog, broker: Broker) -> None:
    log.create_topic("t")
    log.produce("t", [record("k", "first", 1)])
    aborted = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "log_level": 0})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    for _ in range(1_000):
        aborted.produce("t", b"never", b"k")
    aborted.flush()
    aborted.abort_transaction(30)
    assert log.wait({("t", 0): 1_001}, 10)  # until then, it may still be committed
    (end,) = log.ends(["t"])["t"]
    assert [len(log.read("t", 0, start, min(start + 100, end))) for start in range(0, end, 100)] == [1, *[0] * 10]
    assert log.latest_times({("t", 0): (0, end)}) == {("t", 0): 1}
    assert log.latest_times({("t", 0): (500, end - 1)}) == {}
    log.produce("t", [record("k", "last", 2)])
    assert [value for *_, value in rows(log, "t")] == ["first", "last"]


def test_a_response_without_an_offset_is_requested_again(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create_topic("t")
    log.produce("t", [record("k", "v", 1)])
    real, calls = AdminClient.list_offsets, itertools.count()

    def answered(self: AdminClient, places: Any, **options: Any) -> Any:
        answers = real(self, places, **options)
        if next(calls) == 0:  # as seen right after a start
            for place in answers:
                future: Future[Any] = Future()
                answers[place] = future
                future.set_result(SimpleNamespace(offset=-1001))
        return answers

    monkeypatch.setattr(AdminClient, "list_offsets", answered)
    assert log.starts(["t"]) == {"t": [0]}
    assert next(calls) > 1


def test_an_offset_that_is_not_visible_yet_is_not_reported_as_deleted(
    log: KafkaLog, broker: Broker, tmp_path: Path
) -> None:
    log.create_topic("t")
    log.produce("t", [record("k", "v", 1)])
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with (
        open_kafka_log(settings, tmp_path / "hasty", timeout=2.0) as hasty,
        pytest.raises(OffsetOutOfRangeError, match="partition 0 of topic 't' has no offset 100: the topic"),
    ):
        hasty.read("t", 0, 100, 110)


def test_a_read_continues_at_its_position_and_stops_at_max_bytes(log: KafkaLog) -> None:
    log.create_topic("t")
    log.produce("t", [ProducerRecord(None, bytes(1000), 1) for _ in range(500)])
    position, sizes = 0, []
    while position < 500:
        table = log.read("t", 0, position, 500, max_bytes=100_000)
        assert table["offset"][0].as_py() == position
        position = table["offset"][-1].as_py() + 1
        sizes.append(len(table))
    assert all(90 <= size <= 110 for size in sizes[:-1])


def test_records_of_a_call_are_written_in_one_transaction(log: KafkaLog, other: KafkaLog) -> None:
    log.create_topic("a")
    log.create_topic("b", 1, {"max.message.bytes": "1000"})
    too_large = encode([1], [b"k"], [bytes(2_000_000)])
    with pytest.raises(RecordRefusedError, match="is too large for topic 'b'"):
        log.append([Append("a", 0, encode([1], [b"k"], [b"v"])), Append("b", 0, too_large)])
    assert other.read("a", 0, 0, 10).num_rows == 0
    assert log.append([Append("a", 0, encode([1, 2], [b"k"] * 2, [b"v"] * 2))]) != []
    assert [value for *_, value in rows(other, "a")] == ["v", "v"]
    with pytest.raises(UnknownTopicError):
        log.append([Append("a", 1, too_large)])


def test_offsets_are_found_by_time(log: KafkaLog) -> None:
    log.create_topic("t", 2)
    log.produce("t", [record(None, str(time), time, partition=0) for time in (10, 20, 30)])
    asked = {("t", 0): 15, ("t", 1): 15}
    assert log.offsets_for_times(asked) == {("t", 0): 1, ("t", 1): 0}
    assert log.offsets_for_times({("t", 0): 31})["t", 0] in {3, 4}  # with the control record, or not yet
    assert log.latest_times({("t", 0): (0, 3)}) == {("t", 0): 30}
    assert log.latest_times({("t", 1): (0, 0)}) == {}


def test_wait_returns_when_another_log_writes(log: KafkaLog, other: KafkaLog) -> None:
    log.create_topic("t", 2)
    assert not log.wait({("t", 0): 0, ("t", 1): 0}, 0.1)
    writing = threading.Timer(0.3, lambda: other.produce("t", [record("k", "v")], partition=1))
    writing.start()
    started = time.monotonic()
    assert log.wait({("t", 0): 0, ("t", 1): 0}, 20)
    assert time.monotonic() - started < 15
    writing.join()


def test_a_read_of_deleted_records_raises_an_error(log: KafkaLog, broker: Broker) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    log.create_topic("t")
    log.produce("t", [record("k", str(number), 1) for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition("t", 0, 6)]).values():
        future.result()
    assert log.starts(["t"]) == {"t": [6]}
    with pytest.raises(OffsetOutOfRangeError, match="starts at offset 6: the records from 2 to 5 are deleted"):
        log.read("t", 0, 2, 10)
    assert [value for *_, value in rows(log, "t")] == ["6", "7", "8", "9"]


def test_committed_offsets_of_groups_are_listed_and_deleted(log: KafkaLog) -> None:
    log.create_topic("t", 2)
    assert log.committed("readers") == {}
    log.commit_offsets("readers", {("t", 0): 5})
    log.commit_offsets("readers", {("t", 1): 7})
    assert log.committed("readers") == {("t", 0): 5, ("t", 1): 7}
    assert log.groups() == ["readers"]
    log.delete_group("readers")
    assert log.groups() == []
    with pytest.raises(UnknownGroupError):
        log.delete_group("readers")


def test_an_unavailable_broker_raises_an_error(tmp_path: Path) -> None:
    with (
        open_kafka_log({"bootstrap.servers": "127.0.0.1:1"}, tmp_path, timeout=1.0) as log,
        pytest.raises(BrokerError, match=r"the broker at 127\.0\.0\.1:1 does not answer"),
    ):
        log.topics()
