"""Waits for records that another thread or process writes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from millstream.log.api import Offsets
from millstream.log.embedded.database import Database
from millstream.log.embedded.topics import find, heads

Version: TypeAlias = tuple[int, sqlite3.Connection, int]
"""A number of commits of this process, and a number of SQLite that is valid for one connection only."""

# Seconds between two polls: short at first, then longer while there are no commits.
_FIRST_PAUSE = 0.0005
_LAST_PAUSE = 0.02
_GROWTH = 1.3


class Commits:
    """Notices commits. Those of this process end a wait at once; those of other processes are found by polling.

    A poll is one pragma of a few microseconds, whose result changes with each commit of another connection.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self) -> Version:
        """Returns a value that changes with each commit."""
        own = self._database.commits.count
        with self._database.use() as connection:
            return own, connection, connection.execute("PRAGMA data_version").fetchone()[0]

    def notify(self) -> None:
        """Has all waits in this process check whether they are over."""
        self._database.commits.notify()

    def wait(self, version: object, timeout: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Waits for a commit after a version. Returns whether there was one."""
        assert isinstance(version, tuple)
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while self.version() == version:
            left = deadline - time.monotonic()
            if left <= 0 or is_over():
                return False
            self._database.commits.wait(version[0], min(pause, left))
            pause = min(pause * _GROWTH, _LAST_PAUSE)
        return True


def wait(database: Database, positions: Offsets, timeout: float) -> bool:
    """Returns True as soon as a partition ends beyond its position, False after the timeout."""
    deadline = time.monotonic() + timeout
    commits = Commits(database)
    while True:
        version = commits.version()  # before the read, so that a commit after it is noticed
        if _has_records(database, positions):
            return True
        if not commits.wait(version, deadline - time.monotonic()):
            return False


def _has_records(database: Database, positions: Offsets) -> bool:
    """Reads the ends of all partitions of a topic at once: it may have thousands."""
    with database.read() as connection:
        return any(_has_more(connection, topic, offsets) for topic, offsets in by_topic(positions).items())


def by_topic(positions: Offsets) -> dict[str, dict[int, int]]:
    """Returns offsets by topic, then by partition."""
    grouped: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in positions.items():
        grouped.setdefault(topic, {})[partition] = offset
    return grouped


def _has_more(connection: sqlite3.Connection, name: str, offsets: Mapping[int, int]) -> bool:
    topic = find(connection, name)
    for partition in offsets:
        topic.topic.check_partition(partition)
    ends = heads(connection, topic)
    return any(ends[partition].next > offset for partition, offset in offsets.items())
