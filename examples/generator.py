"""The command line of the data generators of the examples, and writing to the embedded log."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from millstream import MillstreamError
from millstream.log import Log, ProducerRecord, open_log

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z: fixed, so that without --rate a seed determines the timestamps, too
PARTITIONS = 2
_CHUNK = 1_000


class Generated(NamedTuple):
    """A record for a topic. Text and bytes are written unchanged, other values as JSON."""

    topic: str
    key: str | None
    value: Any
    timestamp: int


Generator = Callable[[random.Random, int, int], Iterator[Generated]]
"""Yields ``count`` records from a start time on: ``records(rng, count, start)``."""


def main(description: str, topics: Sequence[str], records: Generator) -> None:
    """Runs a generator as a command."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", metavar="DIR", help="the data directory (default: $MILLSTREAM_DATA or .millstream)")
    parser.add_argument(
        "--rate", type=_positive, metavar="N", help="records per second, from now on (default: all at once)"
    )
    parser.add_argument(
        "--records", type=_positive, default=1_000, metavar="N", help="number of records (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed produces the same records")
    options = parser.parse_args()
    start = START if options.rate is None else int(time.time() * 1000)
    generated = records(random.Random(options.seed), options.records, start)
    try:
        with open_log(options.data) as log:
            create_topics(log, topics)
            count = write(log, generated) if options.rate is None else _write_at_rate(log, generated, options.rate)
    except MillstreamError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{count} records written to {', '.join(topics)}")


def create_topics(log: Log, topics: Iterable[str], partitions: int = PARTITIONS) -> None:
    """Creates the topics that do not exist."""
    for topic in topics:
        log.create_topic(topic, partitions, exist_ok=True)


def write(log: Log, records: Iterable[Generated]) -> int:
    """Writes records in chunks; returns their number."""
    count = 0
    remaining = iter(records)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        by_topic: dict[str, list[ProducerRecord]] = {}
        for record in chunk:
            by_topic.setdefault(record.topic, []).append(_encoded(record))
        for topic, encoded in by_topic.items():
            log.produce(topic, encoded)
        count += len(chunk)
    return count


def _write_at_rate(log: Log, records: Iterable[Generated], rate: int) -> int:
    """Writes records one by one, at a rate per second; returns their number."""
    began = time.monotonic()
    count = 0
    for count, record in enumerate(records, start=1):
        log.produce(record.topic, [_encoded(record)])
        time.sleep(max(0.0, began + count / rate - time.monotonic()))
    return count


def _encoded(record: Generated) -> ProducerRecord:
    value = record.value
    if isinstance(value, str):
        value = value.encode()
    elif value is not None and not isinstance(value, bytes):
        value = msgspec.json.encode(value)
    return ProducerRecord(None if record.key is None else record.key.encode(), value, record.timestamp)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
