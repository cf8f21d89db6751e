"""Writes log lines to the topic ``log-lines``, some of them damaged."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["log-lines"]
HOSTS = ["north", "south", "east", "west"]
SERVICES = ["shop", "billing", "search"]
TEXTS = {
    "DEBUG": ["cache miss", "3 rows read"],
    "INFO": ["request served", "user signed in"],
    "WARNING": ["slow request", "disk 80 % full"],
    "ERROR": ["payment refused", "no answer from the database"],
    "FATAL": ["out of memory"],
}


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields five lines per second; one in thirty is truncated, one in a hundred is not text."""
    for number in range(count):
        time = start + 200 * number
        level = rng.choices(list(TEXTS), weights=[30, 50, 10, 8, 2])[0]
        moment = datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        line: str | bytes = f"{moment} {level} {rng.choice(SERVICES)}: {rng.choice(TEXTS[level])}"
        damage = rng.random()
        if damage < 0.01:
            line = b"\xff\xfe\x00"
        elif damage < 0.04:
            line = line[:20]
        yield Generated("log-lines", rng.choice(HOSTS), line, time)


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
