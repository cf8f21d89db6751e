"""Backlogs: input that is in the log before an application starts, and the results of the driver in its order."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from millstream import App, TestDriver
from millstream.log import Log, ProducerRecord

MINUTE = 60_000
PARTITIONS = 4
WINDOW = 10 * MINUTE
GRACE = 2 * MINUTE

ByKey = dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]]
Arrivals = dict[str, list[tuple[int, ProducerRecord]]]
"""For each topic, times of arrival and records."""

every_task_count = pytest.mark.parametrize("tasks", [1, 4])
every_batch_size = pytest.mark.parametrize("records", [23, 101, 350, 1_000_000])


def record(key: str, value: Any, timestamp: int) -> ProducerRecord:
    return ProducerRecord(key.encode(), json.dumps(value).encode(), timestamp)


def write(log: Log, topics: Arrivals) -> None:
    """Writes records in the order of their arrival."""
    for topic, arrivals in topics.items():
        log.create_topic(topic, PARTITIONS)
        log.produce(topic, [sent for _arrived, sent in sorted(arrivals, key=lambda arrival: arrival[0])])


def results(log: Log, topics: Iterable[str]) -> ByKey:
    """Returns values and timestamps of topics, by key and in order."""
    by_key: ByKey = {topic: defaultdict(list) for topic in topics}
    for topic, values in by_key.items():
        for partition, end in enumerate(log.ends([topic])[topic]):
            for row in log.read(topic, partition, 0, end).to_pylist():
                values[row["key"]].append((row["value"], row["timestamp"]))
    return by_key


def in_order_of_positions(log: Log, topics: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the records of topics by running maximum of the timestamps, ordinal of the partition, and offset."""
    rows: list[tuple[tuple[int, int, int], str, dict[str, Any]]] = []
    ends = log.ends(list(topics))
    partitions = sorted((topic, partition) for topic in ends for partition in range(PARTITIONS))
    for ordinal, (topic, partition) in enumerate(partitions):
        time = -1
        for row in log.read(topic, partition, 0, ends[topic][partition]).to_pylist():
            time = max(time, row["timestamp"])
            rows.append(((time, ordinal, row["offset"]), topic, row))
    rows.sort(key=lambda positioned: positioned[0])
    return [(topic, row) for _position, topic, row in rows]


def driven(app: App, log: Log, inputs: Iterable[str], outputs: Iterable[str], partitions: int) -> ByKey:
    """Returns the results of the test driver, into which the records are piped in the order of their positions."""
    by_key: ByKey = {topic: defaultdict(list) for topic in outputs}
    with TestDriver(app, partitions=partitions) as driver:
        pipes = {topic: driver.input(topic, key=bytes, value=bytes) for topic in inputs}
        for topic, row in in_order_of_positions(log, inputs):
            pipes[topic].pipe(row["key"], row["value"], timestamp=row["timestamp"])
        for topic, values in by_key.items():
            for output in driver.output(topic, key=bytes, value=bytes).read_all():
                values[output.key].append((output.value, output.timestamp))
    return by_key
