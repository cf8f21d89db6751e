"""How many topics, groups and applications there are, so that a row that is lost is missed.

Other rows need no counting: a topic knows its partitions, a partition its blocks, an application its state.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from millstream.errors import CorruptLogError
from millstream.log.embedded.checksums import checksum, verify

_STATEMENT = """
    UPDATE counters SET epoch = ?, topic_number = ?, topics = ?, consumer_groups = ?, applications = ?, checksum = ?
"""


class Counters(NamedTuple):
    """The last epoch and the last number of a topic that were given, and how many rows tables have."""

    epoch: int = 0
    topic_number: int = 0
    topics: int = 0
    consumer_groups: int = 0
    applications: int = 0


def create(connection: sqlite3.Connection) -> None:
    """Makes the one row of counters."""
    connection.execute("INSERT INTO counters VALUES (?, ?, ?, ?, ?, ?)", (*Counters(), checksum(*Counters())))


def _read(connection: sqlite3.Connection) -> Counters:
    row = connection.execute("SELECT * FROM counters").fetchone()
    if row is None:
        raise CorruptLogError("the log's counters are missing", hint="restore the log from a copy")
    verify("counters", row[-1], *row[:-1])
    return Counters(*row[:-1])


def add(connection: sqlite3.Connection, added: Counters) -> Counters:
    """Adds to the counters and returns what they are now."""
    after = Counters(*(old + new for old, new in zip(_read(connection), added, strict=True)))
    connection.execute(_STATEMENT, (*after, checksum(*after)))
    return after


def check(connection: sqlite3.Connection, table: str, *, without: str | None = None) -> None:
    """Raises a `CorruptLogError` if a table has not as many rows as it should, or one of them is damaged.

    Who does not find a row, or wants all of them, calls this.

    Args:
        connection: A connection that is in a transaction.
        table: A table of which there is a counter. Its first column is a name, its last one a checksum.
        without: A name that was not found, so must not be there.
    """
    expected = getattr(_read(connection), table)
    what = table.replace("_", " ")
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
    for row in rows:
        verify(what, row[-1], *row[:-1])
    if len(rows) != expected or any(row[0] == without for row in rows):
        message = f"of the log's {expected} {what} only {len(rows)} are there, or they are in disorder"
        raise CorruptLogError(message, hint="restore the log from a copy")
