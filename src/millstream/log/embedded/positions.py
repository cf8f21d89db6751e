"""Converts offsets between names of topics and their stored ids."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

import msgspec

from millstream.errors import LogError
from millstream.log.api import Offsets
from millstream.log.embedded.topics import StoredTopic, find, find_all

Positions: TypeAlias = dict[int, dict[int, int]]
"""Offsets by id of topic, then by partition."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Positions).decode


def resolve(connection: sqlite3.Connection, offsets: Offsets) -> list[tuple[StoredTopic, int, int]]:
    """Checks offsets and returns them as (topic, partition, offset)."""
    topics: dict[str, StoredTopic] = {}
    result = []
    for (name, partition), offset in offsets.items():
        if name not in topics:
            topics[name] = find(connection, name)
        topics[name].topic.check_partition(partition)
        if not 0 <= offset < 2**63:
            raise LogError(f"topic {name!r}, partition {partition}: {offset} is not an offset")
        result.append((topics[name], partition, offset))
    return result


def merge(positions: Positions, resolved: list[tuple[StoredTopic, int, int]]) -> Positions:
    """Returns the positions, updated with the resolved ones."""
    result = {topic: dict(partitions) for topic, partitions in positions.items()}
    for topic, partition, offset in resolved:
        result.setdefault(topic.id, {})[partition] = offset
    return result


def named(connection: sqlite3.Connection, positions: Positions) -> dict[tuple[str, int], int]:
    """Returns positions by the names of topics. Those of deleted topics are left out."""
    return {
        (topic.name, partition): offset
        for topic in find_all(connection)
        for partition, offset in sorted(positions.get(topic.id, {}).items())
    }
