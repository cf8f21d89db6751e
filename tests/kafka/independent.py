"""Reads topics as anybody would: with a consumer that sees what is committed, and nothing of Millstream."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

Sequences = dict[str, list[Any]]


def messages(servers: str, *topics: str, **settings: Any) -> list[Message]:
    """All records of some topics, or of all, in the order of their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "independent",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        known = consumer.list_topics(timeout=30).topics
        wanted = topics or [name for name in known if not name.startswith("__")]
        places = [TopicPartition(name, number, 0) for name in wanted for number in known[name].partitions]
        consumer.assign(places)
        found, left = [], {(place.topic, place.partition) for place in places}
        while left:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
                else:
                    raise AssertionError(error)
        return found
    finally:
        consumer.close()


def read_topics(servers: str) -> dict[str, Sequences]:
    """The values of each key of all topics that do not belong to an application."""
    found: dict[str, Sequences] = defaultdict(lambda: defaultdict(list))
    for message in messages(servers):
        topic, key, value = str(message.topic()), message.key(), message.value()
        if not topic.endswith(("-changelog", "-repartition", "-progress")):
            assert isinstance(key, bytes)
            found[topic][key.decode()].append(None if value is None else json.loads(value))
    return {topic: dict(sequences) for topic, sequences in found.items()}


def reader(servers: str) -> Any:
    """What `tests.fault.model.verify` reads with."""
    return partial(read_topics, servers)
