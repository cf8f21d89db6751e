"""What the tests of local workers share."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from millstream.log import Log


def records_of(log: Log, topic: str) -> dict[bytes | None, list[bytes | None]]:
    """The values of a topic, by key and in order."""
    values: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for partition, end in enumerate(log.ends([topic])[topic]):
        table = log.read(topic, partition, 0, end)
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
            values[key].append(value)
    return dict(values)


def numbers_of(log: Log, topic: str) -> dict[bytes | None, list[int]]:
    """The values of a topic of integers, by key and in order."""
    records = records_of(log, topic)
    return {key: [int.from_bytes(value or b"", "big", signed=True) for value in row] for key, row in records.items()}


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
