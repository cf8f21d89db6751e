"""The examples, and their generated records."""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from pathlib import Path

from examples.generator import START, create_topics, write

from millstream import App, TestDriver
from millstream.cli.loading import load
from millstream.core.records import Headers
from millstream.log import Log
from millstream.log.blocks import decode_headers

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/generate.py"))

Rows = Mapping[bytes | None, list[tuple[bytes | None, int]]]
"""Values and timestamps by key, in their order."""


def file_of(example: str) -> Path:
    """The file of an application: a script in SQL, or ``app.py``."""
    folder = ROOT / "examples" / example
    return next(folder.glob("*.sql"), folder / "app.py")


def app_of(example: str) -> App:
    if file_of(example).suffix == ".sql":
        return load(str(file_of(example)))
    app: App = importlib.import_module(f"examples.{example}.app").app
    return app


def fill(log: Log, example: str, count: int, seed: int = 1) -> list[str]:
    """Writes generated records; returns their topics."""
    generate = importlib.import_module(f"examples.{example}.generate")
    create_topics(log, generate.TOPICS)
    assert write(log, generate.records(random.Random(seed), count, START)) == count
    return list(generate.TOPICS)


def read(log: Log, topic: str) -> list[tuple[int, bytes | None, bytes | None, int, Headers]]:
    """Returns partition, key, value, timestamp and headers of all records of a topic."""
    return [
        (
            partition,
            row["key"],
            row["value"],
            row["timestamp"],
            decode_headers(row["headers"]) if row["headers"] else (),
        )
        for partition, end in enumerate(log.ends([topic])[topic])
        for row in log.read(topic, partition, 0, end).to_pylist()
    ]


def written(log: Log, inputs: list[str]) -> dict[str, Rows]:
    """Returns the records of the output topics that are not empty."""
    outputs: dict[str, Rows] = {}
    for topic in log.topics():
        if topic.name not in inputs and not topic.internal and (rows := read(log, topic.name)):
            outputs[topic.name] = by_key([row[1:4] for row in rows])
    return outputs


def expected(log: Log, inputs: list[str], driver: TestDriver) -> dict[str, Rows]:
    """Returns the results of the test driver for the records in the log."""
    for topic in inputs:
        pipe = driver.input(topic, key=bytes, value=bytes).pipe
        for partition, key, value, timestamp, headers in read(log, topic):
            pipe(key, value, timestamp=timestamp, headers=headers, partition=partition)
    topics = [topic for topic in driver.produced_topics if not topic.endswith("-repartition")]
    outputs = {topic: driver.output(topic, key=bytes, value=bytes).read_all() for topic in topics}
    return {topic: by_key([record[:3] for record in records]) for topic, records in outputs.items()}


def by_key(rows: list[tuple[bytes | None, bytes | None, int]]) -> Rows:
    values: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for key, value, timestamp in rows:
        values.setdefault(key, []).append((value, timestamp))
    return values
