"""Follows partitions of the embedded log."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass

from millstream.core.records import Headers
from millstream.errors import OffsetOutOfRangeError
from millstream.log.api import Fetched, Offsets
from millstream.log.api.following import MOST_RECORDS
from millstream.log.arrays import to_bytes, to_numbers
from millstream.log.blocks import decode_headers
from millstream.log.embedded import records
from millstream.log.embedded.database import Database
from millstream.log.embedded.topics import StoredTopic, find, heads
from millstream.log.embedded.waiting import Commits, Version, by_topic


@dataclass(slots=True)
class _Place:
    """A partition that is followed.

    Attributes:
        next: The offset of the next record.
        id: The id of its topic, which no other topic will ever have.
        end: The end of the partition, as last read.
        is_paused: Whether its records are held back.
    """

    next: int
    id: int
    end: int
    is_paused: bool = False


class EmbeddedFollower:
    """The `Follower` of an embedded log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits = Commits(database)
        self._places: dict[tuple[str, int], _Place] = {}
        self._version: Version | None = None
        self._turn = 0

    def follow(self, positions: Offsets) -> None:
        """Adds partitions, or moves their positions."""
        with self._database.read() as connection:
            for name, offsets in by_topic(positions).items():
                topic = find(connection, name)
                edges = heads(connection, topic)
                for partition, offset in offsets.items():
                    topic.topic.check_partition(partition)
                    self._places[name, partition] = _Place(offset, topic.id, edges[partition].next)

    def unfollow(self, places: Iterable[tuple[str, int]]) -> None:
        """Removes partitions."""
        for place in places:
            del self._places[place]

    def pause(self, places: Iterable[tuple[str, int]]) -> None:
        """Stops the delivery of records of partitions."""
        for place in places:
            self._places[place].is_paused = True

    def resume(self, places: Iterable[tuple[str, int]]) -> None:
        """Continues the delivery of records of paused partitions."""
        for place in places:
            self._places[place].is_paused = False

    def poll(self, timeout: float, most: int = MOST_RECORDS) -> list[Fetched]:
        """Returns records of the partitions that are followed and not paused."""
        deadline = time.monotonic() + timeout
        while True:
            version = self._commits.version()  # before the read, so that a commit after it is noticed
            fetched = self._read(most) if version != self._version or self._has_waiting() else []
            self._version = version
            if fetched or not self._commits.wait(version, deadline - time.monotonic()):
                return fetched

    def position(self, topic: str, partition: int) -> int:
        """Returns the offset of the next record."""
        return self._places[topic, partition].next

    def has_more(self, topic: str, partition: int) -> bool:
        """Returns whether the partition had records at or after the position when it was last read."""
        place = self._places[topic, partition]
        return place.next < place.end

    def refresh(self, places: Iterable[tuple[str, int]]) -> None:
        """Reads the current ends of partitions."""
        with self._database.read() as connection:
            self._read_ends(connection, places)

    def close(self) -> None:
        """Follows nothing any longer. The database stays open."""
        self._places.clear()

    def _has_waiting(self) -> bool:
        return any(place.next < place.end and not place.is_paused for place in self._places.values())

    def _read(self, most: int) -> list[Fetched]:
        """Reads blocks until there are `most` records, each time from another partition first."""
        result: list[Fetched] = []
        with self._database.read() as connection:
            topics = self._read_ends(connection, self._places)
            waiting = [at for at, place in self._places.items() if place.next < place.end and not place.is_paused]
            self._turn = (self._turn + 1) % max(1, len(waiting))
            for name, partition in waiting[self._turn :] + waiting[: self._turn]:
                fetched = self._read_blocks(connection, topics[name], partition, most)
                if fetched is not None:
                    result.append(fetched)
                    most -= len(fetched.offsets)
                    if most <= 0:
                        break
        return result

    def _read_ends(self, connection: sqlite3.Connection, places: Iterable[tuple[str, int]]) -> dict[str, StoredTopic]:
        topics: dict[str, StoredTopic] = {}
        for name, partitions in by_topic(dict.fromkeys(places, 0)).items():
            topics[name] = topic = find(connection, name)
            edges = heads(connection, topic)
            for partition in partitions:
                place, (start, end) = self._places[name, partition], edges[partition]
                if topic.id != place.id or not start <= place.next <= end:
                    raise _out_of_range(name, partition, place.next, start)
                place.end = end
        return topics

    def _read_blocks(
        self, connection: sqlite3.Connection, topic: StoredTopic, partition: int, most: int
    ) -> Fetched | None:
        place = self._places[topic.name, partition]
        fetched = Fetched(topic.name, partition, [], [], [], [], None, place.next)
        headers: list[Headers] = []
        has_headers = False
        for row, batch, offsets in records.blocks(connection, topic, partition, place.next, place.end):
            fetched.offsets.extend(offsets.tolist())
            fetched.timestamps.extend(to_numbers(batch.column(0)).tolist())
            fetched.keys.extend(to_bytes(batch.column(1)))
            fetched.values.extend(to_bytes(batch.column(2)))
            stored = batch.column(3)
            if stored.null_count < len(stored):
                has_headers = True
                headers.extend(map(decode_headers, to_bytes(stored)))
            else:
                headers.extend([()] * len(stored))
            place.next = row.next
            if len(fetched.offsets) >= most:
                break
        if not fetched.offsets:
            return None
        return fetched._replace(headers=headers if has_headers else None, next=place.next)


def _out_of_range(topic: str, partition: int, offset: int, start: int) -> OffsetOutOfRangeError:
    if offset < start:
        message = f"the records of offsets {offset} to {start - 1} are deleted"
        hint = f"the first remaining record has offset {start}"
    else:
        message = f"there is no offset {offset}: the topic was recreated"
        hint = "reset the application, so that it reads its input from the start: millstream reset"
    return OffsetOutOfRangeError(f"topic {topic!r}, partition {partition}: {message}", hint=hint)
