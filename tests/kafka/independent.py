"""Reads committed records of topics by a consumer that does not use Millstream."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

Sequences = dict[str, list[Any]]
Offsets = Callable[[], dict[tuple[str, int], int]]

_OFFSETS_SECONDS = 5.0


def messages(servers: str, *topics: str, **settings: Any) -> list[Message]:
    """Returns the records of these topics, or of all, ordered by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "independent",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 3,  # the first records of changelogs may be deleted
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


@contextlib.contextmanager
def committed_offsets(servers: str, group: str, topics: Iterable[str], partitions: int) -> Iterator[Offsets]:
    """Yields a function that returns the committed offsets of a group, or the last ones if the broker is away."""
    settings = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})  # does not wait for open transactions
    places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
    known: dict[tuple[str, int], int] = {}

    def read() -> dict[tuple[str, int], int]:
        with contextlib.suppress(KafkaException):
            offsets = consumer.committed(places, _OFFSETS_SECONDS)
            known.update({(place.topic, place.partition): max(0, place.offset) for place in offsets})
        return known

    try:
        while not read():
            pass
        yield read
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
