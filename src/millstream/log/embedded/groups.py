"""Consumer groups and their committed offsets."""

from __future__ import annotations

import sqlite3

from millstream.core.failpoints import declare, reach
from millstream.core.names import check_name
from millstream.errors import UnknownGroupError, suggestion
from millstream.log.embedded.checksums import checksum, verify
from millstream.log.embedded.counters import Counters, add, check
from millstream.log.embedded.positions import Positions, decode, encode, merge, named
from millstream.log.embedded.topics import StoredTopic

AFTER_OFFSETS = declare("log.groups.after-offsets")


def _find(connection: sqlite3.Connection, group: str) -> Positions | None:
    row = connection.execute("SELECT * FROM consumer_groups WHERE name = ?", (group,)).fetchone()
    if row is None:
        check(connection, "consumer_groups", group)
        return None
    verify(f"consumer group {group!r}", row[-1], *row[:-1])
    return decode(row[1])


def commit(connection: sqlite3.Connection, group: str, resolved: list[tuple[StoredTopic, int, int]]) -> None:
    """Commits offsets of a group."""
    check_name(group, "consumer group")
    if not resolved:
        return
    before = _find(connection, group)
    if before is None:
        add(connection, Counters(consumer_groups=1))
    row = (group, encode(merge(before or {}, resolved)))
    connection.execute("REPLACE INTO consumer_groups VALUES (?, ?, ?)", (*row, checksum(*row)))
    reach(AFTER_OFFSETS)


def committed(connection: sqlite3.Connection, group: str) -> dict[tuple[str, int], int]:
    """Returns the committed offsets of a group."""
    return named(connection, _find(connection, group) or {})


def names(connection: sqlite3.Connection) -> list[str]:
    """Returns the names of all groups."""
    check(connection, "consumer_groups")
    return [name for (name,) in connection.execute("SELECT name FROM consumer_groups ORDER BY name")]


def delete(connection: sqlite3.Connection, group: str, *, missing_ok: bool = False) -> None:
    """Deletes a group."""
    if connection.execute("DELETE FROM consumer_groups WHERE name = ?", (group,)).rowcount:
        add(connection, Counters(consumer_groups=-1))
    elif not missing_ok:
        raise UnknownGroupError(f"there is no consumer group {group!r}", hint=suggestion(group, names(connection)))
