"""Retention: deleting records that exceed the age or size limit of a topic."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping

from millstream.core.failpoints import declare, reach
from millstream.log.api import Offsets, Removed
from millstream.log.embedded import applications
from millstream.log.embedded.database import Database
from millstream.log.embedded.records import BlockRow, delete, rows, size as stored_size
from millstream.log.embedded.topics import Head, StoredTopic, find, find_all, head, set_head

AFTER_DELETE = declare("log.retention.after-delete")
BEFORE_COMMIT = declare("log.retention.before-commit")

# The file shrinks when more than a quarter of it is unused, by a limited number of pages: writers wait meanwhile.
_UNUSED_PART = 4
_SHRINK_PAGES = 4096


def apply(database: Database, now: int) -> Removed:
    """Deletes expired blocks, partition by partition."""
    records = size = 0
    with database.read() as connection:
        topics = [topic for topic in find_all(connection) if topic.settings.delete]
        floors = applications.floors(connection)
        due = [
            (topic, partition)
            for topic in topics
            for partition in range(topic.topic.partitions)
            if _expired(connection, topic, partition, now, floors)
        ]
    for topic, partition in due:
        with database.write() as connection:
            # The partition may have changed since, or the topic was deleted: so the blocks are determined again.
            if not any(existing.id == topic.id for existing in find_all(connection)):
                continue
            expired = _expired(connection, topic, partition, now, applications.floors(connection))
            _delete(connection, topic, partition, expired)
            reach(BEFORE_COMMIT)
        records += sum(row.count for row in expired)
        size += sum(row.size for row in expired)
    if due:
        _shrink(database)
    return Removed(records, size)


def delete_before(database: Database, offsets: Offsets) -> None:
    """Deletes the blocks that end at or before these offsets and that no application holds."""
    with database.write() as connection:
        floors = applications.floors(connection)
        for (name, partition), offset in offsets.items():
            topic = find(connection, name)
            topic.topic.check_partition(partition)
            edges = head(connection, topic, partition)
            end = min(offset, edges.next, floors.get((topic.id, partition), edges.next))
            with contextlib.closing(rows(connection, topic, partition, edges.start, end)) as stored:
                ended = [row for row in stored if row.next <= end]
            _delete(connection, topic, partition, ended)
        reach(BEFORE_COMMIT)


def _expired(
    connection: sqlite3.Connection,
    topic: StoredTopic,
    partition: int,
    now: int,
    floors: Mapping[tuple[int, int], int],
) -> list[BlockRow]:
    """Returns the expired blocks at the start of a partition, up to the first that an application may still read."""
    edges = head(connection, topic, partition)
    floor = floors.get((topic.id, partition), edges.next)
    retention_ms, retention_bytes = topic.settings.retention_ms, topic.settings.retention_bytes
    size = 0 if retention_bytes is None else stored_size(connection, topic, partition).size or 0
    result = []
    with contextlib.closing(rows(connection, topic, partition, edges.start, edges.next)) as stored:
        for row in stored:
            too_old = retention_ms is not None and row.max_timestamp < now - retention_ms
            too_much = retention_bytes is not None and size - row.size >= retention_bytes
            if row.next > floor or not (too_old or too_much or not row.count):
                break
            result.append(row)
            size -= row.size
    return result


def _delete(connection: sqlite3.Connection, topic: StoredTopic, partition: int, expired: list[BlockRow]) -> None:
    if expired:
        delete(connection, topic, partition, expired)
        reach(AFTER_DELETE)
        edges = head(connection, topic, partition)
        set_head(connection, topic, partition, Head(expired[-1].next, edges.next))


def _shrink(database: Database) -> None:
    with database.use() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (unused,) = connection.execute("PRAGMA freelist_count").fetchone()
        if unused * _UNUSED_PART > pages:
            # `execute` would free a single page: each step of the pragma frees one, and returns no row.
            connection.executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
