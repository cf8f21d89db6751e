"""Topics and their partitions."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from millstream.core.failpoints import declare, reach
from millstream.core.names import check_name
from millstream.errors import ConfigError, TopicExistsError, UnknownTopicError, suggestion
from millstream.log.api import Topic
from millstream.log.embedded.checksums import checksum, verify
from millstream.log.embedded.counters import Counters, add, check
from millstream.log.topic_config import TopicSettings, check_config, check_partitions, settings

CREATE_BEFORE_COMMIT = declare("log.topic-create.before-commit")
DELETE_BEFORE_COMMIT = declare("log.topic-delete.before-commit")


class StoredTopic(NamedTuple):
    """A topic with its id and its parsed configuration."""

    id: int
    topic: Topic
    settings: TopicSettings

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.topic.name


class Head(NamedTuple):
    """The first offset of a partition, and that of its next record."""

    start: int
    next: int


def find(connection: sqlite3.Connection, name: str) -> StoredTopic:
    """Returns the topic of that name, or raises an `UnknownTopicError`."""
    row = connection.execute("SELECT * FROM topics WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return _read(row)
    check(connection, "topics", name)
    names = [existing for (existing,) in connection.execute("SELECT name FROM topics ORDER BY name")]
    hint = suggestion(str(name), names) or (
        "create it first" if len(names) > 20 else f"the topics are: {', '.join(names)}" if names else "there are none"
    )
    raise UnknownTopicError(f"there is no topic {name!r}", hint=hint)


def find_all(connection: sqlite3.Connection) -> list[StoredTopic]:
    """Returns all topics, by name."""
    check(connection, "topics")
    return [_read(row) for row in connection.execute("SELECT * FROM topics ORDER BY name")]


def _read(row: tuple[str, int, int, str, int, int]) -> StoredTopic:
    name, number, partitions, _config, internal, _checksum = row
    config, parsed = _verified(*row)
    return StoredTopic(number, Topic(name, partitions, dict(config), bool(internal)), parsed)


# A batch reads the rows of its topics many times, and they rarely change.
@functools.lru_cache(maxsize=4096, typed=True)
def _verified(
    name: str, number: int, partitions: int, config: str, internal: int, stored: int
) -> tuple[dict[str, str], TopicSettings]:
    """Verifies the columns of a topic, and returns its configuration as it is and parsed."""
    verify(f"topic {name!r}", stored, name, number, partitions, config, internal)
    parsed = json.loads(config)
    return parsed, settings(parsed)


def create(
    connection: sqlite3.Connection, name: str, partitions: int, config: Mapping[str, str], *, internal: bool
) -> StoredTopic:
    """Creates a topic."""
    check_partitions(partitions)
    checked = check_config(config)
    if exists(connection, name):
        raise TopicExistsError(f"topic {name!r} exists already", hint="exist_ok=True returns it unchanged")
    number = add(connection, Counters(topic_number=1, topics=1)).topic_number
    for partition in range(partitions):
        _add_head(connection, number, partition)
    stored = _store(connection, number, Topic(name, partitions, checked, internal))
    reach(CREATE_BEFORE_COMMIT)
    return stored


def exists(connection: sqlite3.Connection, name: str) -> bool:
    """Returns whether there is a topic of that name, which must be valid."""
    check_name(name, "topic")
    if connection.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone() is not None:
        return True
    check(connection, "topics", name)
    return False


def _add_head(connection: sqlite3.Connection, topic: int, partition: int) -> None:
    row = (topic, partition, 0, 0)
    connection.execute("INSERT INTO partitions VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))


def add_partitions(connection: sqlite3.Connection, name: str, total: int) -> StoredTopic:
    """Adds partitions to a topic."""
    stored = find(connection, name)
    check_partitions(total)
    if total <= stored.topic.partitions:
        hint = "partitions can be added, never removed"
        raise ConfigError(f"topic {name!r} has {stored.topic.partitions} partitions already", hint=hint)
    for partition in range(stored.topic.partitions, total):
        _add_head(connection, stored.id, partition)
    return _store(connection, stored.id, stored.topic._replace(partitions=total))


def alter(connection: sqlite3.Connection, name: str, config: Mapping[str, str | None]) -> StoredTopic:
    """Changes keys of a topic's configuration."""
    stored = find(connection, name)
    merged = {**stored.topic.config, **config}
    kept = check_config({key: value for key, value in merged.items() if value is not None})
    return _store(connection, stored.id, stored.topic._replace(config=kept))


def _store(connection: sqlite3.Connection, number: int, topic: Topic) -> StoredTopic:
    row = (topic.name, number, topic.partitions, json.dumps(dict(topic.config)), int(topic.internal))
    connection.execute("REPLACE INTO topics VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))
    return find(connection, topic.name)


def delete(connection: sqlite3.Connection, name: str) -> None:
    """Deletes a topic and its records. Stored offsets for it become void, because its id is not reused."""
    number = find(connection, name).id
    connection.execute("DELETE FROM block_data WHERE id IN (SELECT data FROM blocks WHERE topic = ?)", (number,))
    connection.execute("DELETE FROM blocks WHERE topic = ?", (number,))
    connection.execute("DELETE FROM partitions WHERE topic = ?", (number,))
    connection.execute("DELETE FROM topics WHERE name = ?", (name,))
    add(connection, Counters(topics=-1))
    reach(DELETE_BEFORE_COMMIT)


def head(connection: sqlite3.Connection, topic: StoredTopic, partition: int) -> Head:
    """Returns the bounds of a partition."""
    statement = "SELECT start, next, checksum FROM partitions WHERE topic = ? AND partition = ?"
    return _head(topic, partition, connection.execute(statement, (topic.id, partition)).fetchone())


def heads(connection: sqlite3.Connection, topic: StoredTopic) -> list[Head]:
    """Returns the bounds of each partition of a topic."""
    statement = "SELECT partition, start, next, checksum FROM partitions WHERE topic = ?"
    stored = {partition: row for partition, *row in connection.execute(statement, (topic.id,))}
    return [_head(topic, partition, stored.get(partition)) for partition in range(topic.topic.partitions)]


def _head(topic: StoredTopic, partition: int, row: Sequence[int] | None) -> Head:
    start, end, stored = row or (0, 0, None)
    verify(f"topic {topic.name!r}, partition {partition}", stored, topic.id, partition, start, end)
    return Head(start, end)


def set_head(connection: sqlite3.Connection, topic: StoredTopic, partition: int, moved: Head) -> None:
    """Moves the start or the end of a partition."""
    statement = "UPDATE partitions SET start = ?, next = ?, checksum = ? WHERE topic = ? AND partition = ?"
    check = checksum(topic.id, partition, *moved)
    connection.execute(statement, (*moved, check, topic.id, partition))
