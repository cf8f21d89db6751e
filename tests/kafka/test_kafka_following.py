"""Following partitions of a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.kafka.opening import open_kafka_log
from tests.unit.log.helpers import fetched_rows, follow, follow_to_end, record

from millstream.dev.broker import Broker
from millstream.errors import OffsetOutOfRangeError, UnknownTopicError
from millstream.log import Append, ColumnBlock, Fetched, Follower
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture
def follower(log: KafkaLog) -> Iterator[Follower]:
    log.create_topic("t", 2)
    follower = log.follow()
    yield follower
    follower.close()


def test_records_of_several_partitions_arrive_in_the_order_of_each(log: KafkaLog, follower: Follower) -> None:
    for number in range(6):
        log.produce("t", [record("k", str(number), number)], partition=number % 2)
    follower.follow({("t", 0): 0, ("t", 1): 1})
    read = follow(follower, 5)
    assert [value for _, partition, _, value in read if partition == 0] == ["0", "2", "4"]
    assert [value for _, partition, _, value in read if partition == 1] == ["3", "5"]


def test_all_columns_of_a_record_are_returned(log: KafkaLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0})
    headers = (("trace", b"1"), ("empty", None))
    assert follow_to_end(follower, ("t", 0)) == []
    log.append([Append("t", 0, ColumnBlock([5, 6], [None, b"k"], [b"a", None], [(), headers]))])
    log.append([Append("t", 0, ColumnBlock([7], [b"k"], [b""]))])
    follower.follow({("t", 0): 0})
    fetched: list[Fetched] = []
    while not fetched or fetched[-1].next < 4:
        fetched += until_some(follower)
    assert [offset for some in fetched for offset in some.offsets] == [0, 1, 3]
    assert [timestamp for some in fetched for timestamp in some.timestamps] == [5, 6, 7]
    assert [key for some in fetched for key in some.keys] == [None, b"k", b"k"]
    assert [value for some in fetched for value in some.values] == [b"a", None, b""]
    assert [item for some in fetched for item in some.headers or [()] * len(some.offsets)] == [(), headers, ()]
    follower.follow({("t", 0): 3})
    assert until_some(follower) == [("t", 0, [3], [7], [b"k"], [b""], None, 4)]


def until_some(follower: Follower, most: int = 10) -> list[Fetched]:
    deadline = time.monotonic() + 30
    while not (fetched := follower.poll(1.0, most)):
        assert time.monotonic() < deadline, "no record arrives"
    return fetched


def test_control_records_at_the_end_are_passed(log: KafkaLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0, ("t", 1): 0})
    assert follower.has_more("t", 0)  # not known yet
    assert follow_to_end(follower, ("t", 0), ("t", 1)) == []
    for number in range(3):
        log.produce("t", [record("k", str(number))], partition=0)  # each adds a control record
    follower.refresh([("t", 0), ("t", 1)])
    assert follower.has_more("t", 0)
    assert not follower.has_more("t", 1)
    assert follow_to_end(follower, ("t", 0)) == ["0", "1", "2"]
    assert follower.position("t", 0) == log.ends(["t"])["t"][0] == 6
    follower.refresh([("t", 0)])
    assert not follower.has_more("t", 0)


def test_aborted_transactions_are_invisible(log: KafkaLog, broker: Broker, follower: Follower) -> None:
    follower.follow({("t", 0): 0})
    aborted = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "log_level": 0})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce("t", b"never", b"k", 0)
    aborted.flush()
    log.produce("t", [record("k", "hidden until then")], partition=0)
    assert follow_to_end(follower, ("t", 0)) == []
    assert follower.position("t", 0) == 0
    assert log.ends(["t"])["t"][0] < log.ends(["t"], committed=False)["t"][0]
    aborted.abort_transaction(30)
    assert follow(follower, 1) == [("t", 0, 1, "hidden until then")]


def test_a_position_can_be_moved_and_a_partition_removed(log: KafkaLog, follower: Follower) -> None:
    log.produce("t", [record("k", str(number)) for number in range(5)], partition=0)
    follower.follow({("t", 0): 0, ("t", 1): 0})
    assert len(follow(follower, 5)) == 5
    follower.follow({("t", 0): 3})
    assert follower.has_more("t", 0)
    assert follow(follower, 2) == [("t", 0, 3, "3"), ("t", 0, 4, "4")]
    follower.unfollow([("t", 0)])
    log.produce("t", [record("k", "gone")], partition=0)
    log.produce("t", [record("k", "here")], partition=1)
    assert follow(follower, 1) == [("t", 1, 0, "here")]


def test_paused_partitions_deliver_nothing_until_they_are_resumed(log: KafkaLog, follower: Follower) -> None:
    log.produce("t", [record("k", str(number)) for number in range(10)], partition=0)
    follower.follow({("t", 0): 0, ("t", 1): 0})
    first = fetched_rows(until_some(follower, most=4))
    follower.pause([("t", 0)])
    log.produce("t", [record("k", "other")], partition=1)
    assert follow(follower, 1) == [("t", 1, 0, "other")]
    assert follow_to_end(follower, ("t", 1)) == []
    assert follower.has_more("t", 0)
    follower.resume([("t", 0)])
    assert [value for *_, value in first + follow(follower, 10 - len(first))] == [str(number) for number in range(10)]


def test_deleted_records_raise_an_error(log: KafkaLog, follower: Follower) -> None:
    log.produce("t", [record("k", str(number)) for number in range(10)], partition=0)
    log.delete_records({("t", 0): 6})
    follower.follow({("t", 0): 2})
    with pytest.raises(OffsetOutOfRangeError, match=r"partition 0 of topic 't' starts at offset 6: .* from 2 to 5"):
        follow(follower, 1)


def test_a_recreated_topic_raises_an_error(broker: Broker, log: KafkaLog, tmp_path: Path) -> None:
    with open_kafka_log({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "hasty", timeout=5) as hasty:
        log.create_topic("u")
        log.produce("u", [record("k", str(number)) for number in range(10)])
        follower = hasty.follow()
        follower.follow({("u", 0): 0})
        follow(follower, 10)
        log.delete_topic("u")
        log.create_topic("u")
        with pytest.raises(OffsetOutOfRangeError, match="partition 0 of topic 'u' has no offset 1"):
            follow(follower, 1)
        follower.close()


def test_a_request_for_the_end_of_a_deleted_topic_raises_an_error(log: KafkaLog, follower: Follower) -> None:
    log.create_topic("u")
    follower.follow({("u", 0): 0, ("t", 0): 0})
    follow_to_end(follower, ("u", 0))
    log.delete_topic("u")
    with pytest.raises(UnknownTopicError, match="'u'"):
        follower.refresh([("u", 0)])


def test_unknown_partitions_are_refused(follower: Follower) -> None:
    with pytest.raises(UnknownTopicError, match="no partition 2"):
        follower.follow({("t", 2): 0})
    with pytest.raises(UnknownTopicError, match="'missing'"):
        follower.follow({("missing", 0): 0})


def test_a_poll_ends_when_another_client_writes(log: KafkaLog, other: KafkaLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0, ("t", 1): 0})
    follow_to_end(follower, ("t", 0), ("t", 1))
    writer = threading.Thread(target=lambda: other.produce("t", [record("k", "new")], partition=1))
    writer.start()
    assert fetched_rows(follower.poll(60)) == [("t", 1, 0, "new")]
    writer.join()


def test_a_follower_goes_on_after_the_broker_was_killed(log: KafkaLog, broker: Broker, follower: Follower) -> None:
    follower.follow({("t", 0): 0, ("t", 1): 0})
    log.produce("t", [record("k", "before")], partition=0)
    assert follow(follower, 1) == [("t", 0, 0, "before")]
    broker.kill()
    assert follower.poll(0.5) == []
    broker.start()
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    plain.produce("t", b"after", b"k", 0)
    plain.produce("t", b"beside", b"k", 1)
    plain.flush()
    assert sorted(follow(follower, 2)) == [("t", 0, 2, "after"), ("t", 1, 0, "beside")]
    assert follow_to_end(follower, ("t", 0), ("t", 1)) == []
    assert follower.position("t", 0) == 3


def test_a_partition_that_was_paused_for_long_is_not_reported_as_silent(
    broker: Broker, log: KafkaLog, tmp_path: Path
) -> None:
    log.create_topic("u")
    with open_kafka_log({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "hasty", timeout=1) as hasty:
        follower = hasty.follow()
        follower.follow({("u", 0): 0})
        follower.pause([("u", 0)])
        started = time.monotonic()
        while time.monotonic() < started + 1.5:
            assert follower.poll(0.1) == []
        follower.resume([("u", 0)])
        follower.poll(0)
        log.produce("u", [record("k", "new")])
        assert follow(follower, 1) == [("u", 0, 0, "new")]
        follower.close()
