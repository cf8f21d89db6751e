"""Offsets for timestamps, and timestamps for offsets."""

from __future__ import annotations

import sqlite3

import numpy as np

from millstream.log.arrays import to_numbers
from millstream.log.embedded.records import load, offsets, rows
from millstream.log.embedded.topics import StoredTopic, head


def offset_for_time(connection: sqlite3.Connection, topic: StoredTopic, partition: int, timestamp: int) -> int:
    """Returns the offset of the first record at or after a timestamp; the partition's end if there is none."""
    topic.topic.check_partition(partition)
    edges = head(connection, topic, partition)
    for row in rows(connection, topic, partition, edges.start, edges.next):
        if row.count and row.max_timestamp >= timestamp:
            timestamps = to_numbers(load(connection, topic, partition, row).column("timestamp"))
            return int(offsets(row)[np.argmax(timestamps >= max(timestamp, 0))])
    return edges.next


def latest_time(connection: sqlite3.Connection, topic: StoredTopic, partition: int, start: int, end: int) -> int | None:
    """Returns the greatest timestamp of the blocks that cover a range of offsets."""
    topic.topic.check_partition(partition)
    return max((row.max_timestamp for row in rows(connection, topic, partition, start, end) if row.count), default=None)
