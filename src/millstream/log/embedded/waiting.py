"""Waits for records that another thread or process writes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from millstream.log.api import Offsets
from millstream.log.embedded.database import Database
from millstream.log.embedded.topics import find, heads

# Seconds between two polls: short at first, then longer while there are no records.
_FIRST_PAUSE = 0.0005
_LAST_PAUSE = 0.02
_GROWTH = 1.3


def wait(database: Database, positions: Offsets, timeout: float) -> bool:
    """Returns True as soon as a partition ends beyond its position, False after the timeout.

    A poll is one pragma of a few microseconds, whose result changes with each commit of another connection.
    """
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    polled = None
    while True:
        # In this order, so that a commit between the two is seen by the next poll.
        version = _version(database)
        if version != polled:
            polled = version
            if _has_records(database, positions):
                return True
            pause = _FIRST_PAUSE
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LAST_PAUSE)


def _version(database: Database) -> tuple[sqlite3.Connection, int]:
    """Returns a value that changes when another connection commits. It is valid for its connection only."""
    with database.use() as connection:
        return connection, connection.execute("PRAGMA data_version").fetchone()[0]


def _has_records(database: Database, positions: Offsets) -> bool:
    """Reads the ends of all partitions of a topic at once: it may have thousands."""
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in positions.items():
        by_topic.setdefault(topic, {})[partition] = offset
    with database.read() as connection:
        return any(_has_more(connection, topic, offsets) for topic, offsets in by_topic.items())


def _has_more(connection: sqlite3.Connection, name: str, offsets: Mapping[int, int]) -> bool:
    topic = find(connection, name)
    for partition in offsets:
        topic.topic.check_partition(partition)
    ends = heads(connection, topic)
    return any(ends[partition].next > offset for partition, offset in offsets.items())
