"""The time of a serialized record, before a task takes the record: the input order depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from millstream.core.durations import END_OF_TIME
from millstream.core.records import Headers
from millstream.engine.errors import FAILURES
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Repartition
from millstream.serde.api import reader

RecordTime: TypeAlias = Callable[[int, bytes | None, bytes | None, Headers], int]
"""Extracts the time of a record: timestamp, key, value, headers. -1 if the record has no valid time."""


def record_time(node: Source | Repartition | GlobalTable | None) -> RecordTime | None:
    """Returns the timestamp extractor of a source, if it depends on the record alone; None: timestamps are times."""
    function = node.timestamps.function if isinstance(node, Source) else None
    if function is None or "partition_time" in function.roles:
        return None
    assert isinstance(node, Source)
    extract, count = function.full(), len(function.roles)
    read_key, read_value = reader(node.key), reader(node.value)

    def extracted(timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        try:
            time = extract(*(read_key(key, headers), read_value(value, headers), timestamp)[:count])
            return -1 if time is None or time > END_OF_TIME else max(int(time), -1)
        except FAILURES:  # the task meets the same error, and calls the error handler
            return -1

    return extracted
