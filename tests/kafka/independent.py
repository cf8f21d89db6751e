"""Reads committed records of topics by a consumer that does not use Millstream."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

Sequences = dict[str, list[Any]]


def messages(servers: str, *topics: str, **settings: Any) -> list[Message]:
    """Returns the records of these topics, or of all, ordered by offset."""
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
        existing = consumer.list_topics(timeout=30).topics
        wanted = topics or [name for name in existing if not name.startswith("__")]
        places = [TopicPartition(name, number, 0) for name in wanted for number in existing[name].partitions]
        consumer.assign(places)
        result, left = [], {(place.topic, place.partition) for place in places}
        while left:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    result.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
                else:
                    raise AssertionError(error)
        return result
    finally:
        consumer.close()


def read_topics(servers: str) -> dict[str, Sequences]:
    """Returns the values of each key of all topics that are not internal."""
    values: dict[str, Sequences] = defaultdict(lambda: defaultdict(list))
    for message in messages(servers):
        topic, key, value = str(message.topic()), message.key(), message.value()
        if not topic.endswith(("-changelog", "-repartition", "-progress")) and "-progress." not in topic:
            assert isinstance(key, bytes)
            values[topic][key.decode()].append(None if value is None else json.loads(value))
    return {topic: dict(sequences) for topic, sequences in values.items()}


def reader(servers: str) -> Any:
    """The reader for `tests.fault.model.verify`."""
    return partial(read_topics, servers)
