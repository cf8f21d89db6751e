"""How many topics, groups and applications there are, so that a row that is lost is missed.

Other rows need no counting: a topic knows its partitions, a partition its blocks, an application its state.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from millstream.errors import CorruptLogError
from millstream.log.embedded.checksums import checksum, verify

_STATEMENT = "UPDATE counters SET epoch = ?, topics = ?, consumer_groups = ?, applications = ?, checksum = ?"


class Counters(NamedTuple):
    """The last epoch that was given, and how many rows tables have."""

    epoch: int = 0
    topics: int = 0
    consumer_groups: int = 0
    applications: int = 0


def create(connection: sqlite3.Connection) -> None:
    """Makes the one row of counters."""
    connection.execute("INSERT INTO counters VALUES (?, ?, ?, ?, ?)", (*Counters(), checksum(*Counters())))


def _read(connection: sqlite3.Connection) -> Counters:
    row = connection.execute("SELECT * FROM counters").fetchone()
    if row is None:
        raise CorruptLogError("the log's counters are missing", hint="restore the log from a copy")
    verify("counters", row[-1], *row[:-1])
    return Counters(*row[:-1])


def add(
    connection: sqlite3.Connection, *, epoch: int = 0, topics: int = 0, consumer_groups: int = 0, applications: int = 0
) -> Counters:
    """Adds to the counters and returns what they are now."""
    before = _read(connection)
    added = (epoch, topics, consumer_groups, applications)
    after = Counters(*(old + new for old, new in zip(before, added, strict=True)))
    connection.execute(_STATEMENT, (*after, checksum(*after)))
    return after


def check(connection: sqlite3.Connection, table: str) -> None:
    """Raises a `CorruptLogError` if a table has not as many rows as it should, or one of them is damaged.

    Who does not find a row, or wants all of them, calls this first.
    """
    expected = getattr(_read(connection), table)
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
    for row in rows:
        verify(table.replace("_", " "), row[-1], *row[:-1])
    if len(rows) != expected:
        what = f"the log has {len(rows)} {table.replace('_', ' ')}, but there should be {expected}"
        raise CorruptLogError(what, hint="restore the log from a copy")
