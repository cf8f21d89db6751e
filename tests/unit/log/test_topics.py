"""Creating, listing, altering and deleting topics."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.log.helpers import record, rows

from millstream.errors import ConfigError, InvalidNameError, TopicExistsError, UnknownTopicError
from millstream.log import ProducerRecord, Topic
from millstream.log.embedded import EmbeddedLog


def test_a_topic_has_the_settings_of_its_creation(log: EmbeddedLog) -> None:
    made = log.create_topic("orders", 3, {"retention.ms": "1000"}, internal=True)
    assert made == Topic("orders", 3, {"retention.ms": "1000"}, internal=True)
    assert log.topic("orders") == made


def test_topics_are_ordered_by_name(log: EmbeddedLog) -> None:
    for name in ("b", "c", "a"):
        log.create_topic(name)
    assert [topic.name for topic in log.topics()] == ["a", "b", "c"]


def test_a_new_topic_is_empty(log: EmbeddedLog) -> None:
    log.create_topic("orders", 2)
    assert log.starts(["orders"]) == {"orders": [0, 0]}
    assert log.ends(["orders"]) == {"orders": [0, 0]}
    assert log.read("orders", 1, 0, 10).num_rows == 0


def test_an_existing_topic_is_not_created_again(log: EmbeddedLog) -> None:
    first = log.create_topic("orders", 2)
    with pytest.raises(TopicExistsError, match="topic 'orders' exists already"):
        log.create_topic("orders", 2)
    assert log.create_topic("orders", 5, exist_ok=True) == first


@pytest.mark.parametrize("name", ["", ".", "a b", "é", "x" * 250, 5])
def test_invalid_names_are_refused(log: EmbeddedLog, name: Any) -> None:
    with pytest.raises(InvalidNameError):
        log.create_topic(name)
    assert log.topics() == []


@pytest.mark.parametrize("partitions", [0, -1, 10_001, 1.5, True, "3"])
def test_invalid_numbers_of_partitions_are_refused(log: EmbeddedLog, partitions: Any) -> None:
    with pytest.raises(ConfigError, match="1 to 10000 partitions"):
        log.create_topic("orders", partitions)


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        ({"retention.m": "1"}, "unknown topic configuration key 'retention.m'", "did you mean 'retention.ms'?"),
        ({"zzz": "1"}, "unknown topic configuration key 'zzz'", "the keys are: cleanup.policy"),
        ({"cleanup.policy": "compacted"}, "cleanup.policy: 'compacted'", "did you mean 'compact'?"),
        ({"message.timestamp.type": "now"}, "message.timestamp.type: 'now'", "use one of: CreateTime, LogAppendTime"),
        ({"retention.ms": "1s"}, "retention.ms: '1s' is not a whole number of at least -1", ""),
        ({"retention.bytes": "-2"}, "retention.bytes: '-2' is not a whole number", ""),
        ({"max.message.bytes": "-1"}, "max.message.bytes: '-1' is not a whole number of at least 0", ""),
        ({"delete.retention.ms": ""}, "delete.retention.ms: '' is not a whole number", ""),
        ({"retention.ms": 5}, "retention.ms: 5 is not text", ""),
    ],
)
def test_an_invalid_configuration_is_refused(log: EmbeddedLog, config: Any, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        log.create_topic("orders", 1, config)
    assert caught.value.message.startswith(message)
    assert (caught.value.hint or "").startswith(hint)
    log.create_topic("orders")
    with pytest.raises(ConfigError):
        log.alter_topic("orders", config)
    assert log.topic("orders").config == {}


def test_the_error_for_an_unknown_topic_suggests_a_name(log: EmbeddedLog) -> None:
    with pytest.raises(UnknownTopicError) as caught:
        log.topic("orders")
    assert caught.value.hint == "there are none"
    log.create_topic("orders")
    with pytest.raises(UnknownTopicError) as caught:
        log.topic("order")
    assert (caught.value.message, caught.value.hint) == ("there is no topic 'order'", "did you mean 'orders'?")
    with pytest.raises(UnknownTopicError) as caught:
        log.topic("zzz")
    assert caught.value.hint == "the topics are: orders"


def test_every_method_refuses_unknown_topics_and_partitions(log: EmbeddedLog) -> None:
    log.create_topic("orders", 2)
    for name, partition in (("nope", 0), ("orders", 2), ("orders", -1)):
        with pytest.raises(UnknownTopicError):
            log.read(name, partition, 0, 1)
        with pytest.raises(UnknownTopicError):
            log.latest_times({(name, partition): (0, 1)})
        with pytest.raises(UnknownTopicError):
            log.offsets_for_times({(name, partition): 0})
        with pytest.raises(UnknownTopicError):
            log.wait({(name, partition): 0}, 0)
        with pytest.raises(UnknownTopicError):
            log.commit_offsets("g", {(name, partition): 0})
        with pytest.raises(UnknownTopicError):
            log.cleanup.hold("a", {(name, partition): 0})
        with pytest.raises(UnknownTopicError):
            log.produce(name, [record("k", "v")], partition=partition)
        with pytest.raises(UnknownTopicError):
            log.produce(name, [record("k", "v", partition=partition)])
    for call in (log.delete_topic, log.cleanup.compact, lambda name: log.ends([name]), lambda name: log.starts([name])):
        with pytest.raises(UnknownTopicError):
            call("nope")


def test_partitions_can_be_added_but_not_removed(log: EmbeddedLog) -> None:
    log.create_topic("orders", 2)
    log.produce("orders", [record("k", "v")], partition=1)
    assert log.add_partitions("orders", 4).partitions == 4
    assert log.ends(["orders"]) == {"orders": [0, 1, 0, 0]}
    for total in (4, 1, 0):
        with pytest.raises(ConfigError):
            log.add_partitions("orders", total)


def test_alter_topic_changes_single_keys(log: EmbeddedLog) -> None:
    log.create_topic("orders", 1, {"retention.ms": "5", "cleanup.policy": "compact"})
    altered = log.alter_topic("orders", {"retention.ms": None, "retention.bytes": "9"})
    assert altered.config == {"cleanup.policy": "compact", "retention.bytes": "9"}
    assert log.topic("orders") == altered


def test_a_recreated_topic_is_empty(log: EmbeddedLog) -> None:
    log.create_topic("orders")
    log.create_topic("other")
    for topic in ("orders", "other"):
        log.produce(topic, [record("k", topic)])
        log.commit_offsets("group", {(topic, 0): 1})
        log.cleanup.hold("application", {(topic, 0): 0})
    log.delete_topic("orders")
    assert [topic.name for topic in log.topics()] == ["other"]
    log.create_topic("orders")
    assert rows(log, "orders") == []
    assert rows(log, "other") == [(0, "k", "other")]
    assert log.committed("group") == {("other", 0): 1}


def test_sizes_of_partitions(log: EmbeddedLog) -> None:
    log.create_topic("prices", 3, {"cleanup.policy": "compact"})
    assert log.sizes("prices") == [(0, 0)] * 3
    log.produce("prices", [ProducerRecord(b"a", b"1", 1), ProducerRecord(b"a", b"2", 2)], partition=1)
    before = log.sizes("prices")
    assert [stored.records for stored in before] == [0, 2, 0]
    log.cleanup.compact("prices")
    after = log.sizes("prices")
    assert [stored.records for stored in after] == [0, 1, 0]
    assert 0 < (after[1].size or 0) < (before[1].size or 0)
    with pytest.raises(UnknownTopicError):
        log.sizes("nothing")
