"""The latency from producing a record to reading its result with a plain client, at a steady rate."""

from __future__ import annotations

import time

from bench.kafka.background import Background
from bench.measuring import quantile
from confluent_kafka import Consumer, Producer, TopicPartition

QUIET = {"log_level": 0}
KEYS = 10_000
_EACH = 0.01
_BEHIND = 5.0


class Steady(Background):
    """Produces records at a rate per second, in a thread; their timestamps are the times of their production."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        super().__init__()
        self._producer = Producer(
            {"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 1, **QUIET}
        )
        self._topic = topic
        self._count = max(1, int(rate * _EACH))

    def run(self) -> None:
        """Produces until the block ends."""
        due, done, filler = time.monotonic(), 0, "x" * 92
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            for number in range(done, done + self._count):
                try:
                    self._producer.produce(self._topic, f"{number:08}{filler}", f"k{number % KEYS}")
                except BufferError:  # the broker does not answer
                    self._producer.poll(1.0)
            done += self._count
            self._producer.poll(0)
            due += _EACH
        self._producer.flush(10)


def delays(servers: str, topic: str, partitions: int, *, warm: float, seconds: float, patience: float) -> list[float]:
    """Returns the ages of records of a topic when they are read, in milliseconds, after a warm-up."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-watch",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ages: list[float] = []
    deadline, warm_at, behind = time.monotonic() + patience, None, _BEHIND * 1000
    while time.monotonic() < deadline:
        received = consumer.consume(1, 0.01)  # a call for many messages waits until there are that many
        now = time.time() * 1000
        received += consumer.consume(10_000, 0)
        messages = [message for message in received if message.error() is None]
        if messages:
            warm_at = warm_at or time.monotonic() + warm
            behind = now - messages[-1].timestamp()[1]
        if warm_at is None or time.monotonic() < warm_at:
            continue
        if not ages and behind > _BEHIND * 1000:  # the backlog of the start must be processed first
            continue
        if messages and not ages:
            deadline = time.monotonic() + seconds
        ages += [now - message.timestamp()[1] for message in messages]
    consumer.close()
    return ages


def middle_and_worst(ages: list[float]) -> tuple[float, float]:
    """Returns the median and the 99th percentile."""
    return quantile(ages, 0.5), quantile(ages, 0.99)
