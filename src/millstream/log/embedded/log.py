"""The embedded log: the protocols of `millstream.log.api` on one SQLite database."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from millstream.core.data_directory import data_directory
from millstream.core.failpoints import declare, reach
from millstream.log.api import (
    Append,
    Offsets,
    Produced,
    ProducerRecord,
    Ranges,
    Stored,
    Topic,
)
from millstream.log.embedded import (
    groups,
    positions,
    records as stored_records,
    retention,
    times as stored_times,
    topics as stored_topics,
    waiting,
)
from millstream.log.embedded.database import Database, now_ms
from millstream.log.embedded.following import EmbeddedFollower
from millstream.log.embedded.parts import EmbeddedApplications, EmbeddedCleanup, EmbeddedViews
from millstream.log.embedded.schema import open_database
from millstream.log.producing import route

APPEND_BEFORE_BEGIN = declare("log.append.before-begin")
APPEND_BEFORE_COMMIT = declare("log.append.before-commit")
APPEND_AFTER_COMMIT = declare("log.append.after-commit")


def open_log(
    path: str | os.PathLike[str] | None = None, *, create: bool = True, max_size: int | None = None
) -> EmbeddedLog:
    """Opens the log in a data directory.

    Several processes may have it open at once.

    Args:
        path: The data directory. Without it, ``$MILLSTREAM_DATA``, or ``.millstream`` in the working directory.
        create: Whether to create the directory and the log if they do not exist.
        max_size: Limit of the file size in bytes for writes through this object.

    Raises:
        LogError: There is no log, or it cannot be opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, open_log(directory) as log:
    ...     topic = log.create_topic("words", partitions=2)
    ...     produced = log.produce("words", [ProducerRecord(b"k", b"v", 5)])
    ...     log.read("words", 0, 0, 10)["value"].to_pylist()
    [b'v']
    """
    return EmbeddedLog(open_database(data_directory(path), create=create, max_size=max_size))


class EmbeddedLog:
    """A `Log` in a SQLite database, which `open_log` opens.

    An object may be shared by threads, and by a process and its forked children.

    Attributes:
        applications: Publications and recorded state of applications.
        views: The views of stores.
        cleanup: Retention and compaction.
        changes: Tells of commits.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.applications = EmbeddedApplications(database)
        self.views = EmbeddedViews(database)
        self.cleanup = EmbeddedCleanup(database)
        self.changes = waiting.Commits(database)
        self._calls = itertools.count()

    def connect(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Returns at once: there is no server."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        internal: bool = False,
        exist_ok: bool = False,
    ) -> Topic:
        """Creates a topic, or returns the existing one with `exist_ok`."""
        with self._database.write() as connection:
            if exist_ok and stored_topics.exists(connection, name):
                return stored_topics.find(connection, name).topic
            return stored_topics.create(connection, name, partitions, config or {}, internal=internal).topic

    def topic(self, name: str) -> Topic:
        """Returns the topic of that name."""
        with self._database.read() as connection:
            return stored_topics.find(connection, name).topic

    def topics(self) -> list[Topic]:
        """Returns all topics, ordered by name."""
        with self._database.read() as connection:
            return [stored.topic for stored in stored_topics.find_all(connection)]

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records."""
        with self._database.write() as connection:
            stored_topics.delete(connection, name)

    def add_partitions(self, name: str, total: int) -> Topic:
        """Increases the number of partitions."""
        with self._database.write() as connection:
            return stored_topics.add_partitions(connection, name, total).topic

    def alter_topic(self, name: str, config: Mapping[str, str | None]) -> Topic:
        """Changes keys of a topic's configuration."""
        with self._database.write() as connection:
            return stored_topics.alter(connection, name, config).topic

    def produce(self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None) -> list[Produced]:
        """Writes records in one transaction."""
        with self._database.read() as connection:
            target = stored_topics.find(connection, topic).topic
        sticky = next(self._calls) % target.partitions
        blocks = route(target, records, partition, sticky, now_ms())
        bases = self.append([Append(topic, number, block) for number, block in blocks]) if blocks else []
        result: list[Produced] = []
        for (number, block), base in zip(blocks, bases, strict=True):
            if result and result[-1].partition == number:
                result[-1] = result[-1]._replace(count=result[-1].count + block.count)
            else:
                result.append(Produced(number, base, block.count))
        return result

    def append(self, appends: Sequence[Append]) -> list[int]:
        """Writes blocks unchanged, in one transaction."""
        reach(APPEND_BEFORE_BEGIN)
        encoded = stored_records.encoded(appends)
        with self._database.write() as connection:
            bases = stored_records.append_all(connection, encoded, now_ms())
            reach(APPEND_BEFORE_COMMIT)
        reach(APPEND_AFTER_COMMIT)
        return bases

    def starts(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Returns the offset of the first record of each partition, by topic."""
        return {name: [head.start for head in heads] for name, heads in self._heads(topics).items()}

    def ends(self, topics: Iterable[str], *, committed: bool = True) -> dict[str, list[int]]:
        """Returns the offset that the next record of each partition will have, by topic. All records are committed."""
        return {name: [head.next for head in heads] for name, heads in self._heads(topics).items()}

    def _heads(self, topics: Iterable[str]) -> dict[str, list[stored_topics.Head]]:
        with self._database.read() as connection:
            return {name: stored_topics.heads(connection, stored_topics.find(connection, name)) for name in topics}

    def sizes(self, topic: str) -> list[Stored]:
        """Returns the size of each partition of a topic."""
        with self._database.read() as connection:
            return stored_records.sizes(connection, stored_topics.find(connection, topic))

    def read(self, topic: str, partition: int, start: int, end: int, *, max_bytes: int | None = None) -> pa.Table:
        """Returns the records with `start <= offset < end`, in order."""
        with self._database.read() as connection:
            stored = stored_topics.find(connection, topic)
            return stored_records.read(connection, stored, partition, (start, end), max_bytes)

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record whose timestamp is at least the given one, by partition."""
        with self._database.read() as connection:
            topics = {name: stored_topics.find(connection, name) for name in dict.fromkeys(name for name, _ in times)}
            return {
                (name, partition): stored_times.offset_for_time(connection, topics[name], partition, timestamp)
                for (name, partition), timestamp in times.items()
            }

    def latest_times(self, ranges: Ranges) -> dict[tuple[str, int], int]:
        """Returns approximately the greatest timestamp of ranges of offsets, by partition."""
        times: dict[tuple[str, int], int] = {}
        with self._database.read() as connection:
            topics = {name: stored_topics.find(connection, name) for name in dict.fromkeys(name for name, _ in ranges)}
            for (name, partition), (start, end) in ranges.items():
                latest = stored_times.latest_time(connection, topics[name], partition, start, end)
                if latest is not None:
                    times[name, partition] = latest
        return times

    def follow(self) -> EmbeddedFollower:
        """Returns a reader of records as they are committed."""
        return EmbeddedFollower(self._database)

    def wait(self, positions: Offsets, timeout: float) -> bool:
        """Waits until a partition has records at or beyond its position."""
        return waiting.wait(self._database, positions, timeout)

    def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Commits offsets of a consumer group."""
        with self._database.write() as connection:
            groups.commit(connection, group, positions.resolve(connection, offsets))

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the committed offsets of a consumer group."""
        with self._database.read() as connection:
            return groups.committed(connection, group)

    def groups(self) -> list[str]:
        """Returns the names of all consumer groups."""
        with self._database.read() as connection:
            return groups.names(connection)

    def delete_group(self, group: str) -> None:
        """Deletes a consumer group."""
        with self._database.write() as connection:
            groups.delete(connection, group)

    def delete_records(self, offsets: Offsets) -> None:
        """Deletes the blocks before these offsets, unless an application holds them."""
        retention.delete_before(self._database, offsets)

    def close(self) -> None:
        """Closes the database in all threads."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
