"""The numbers of topics, groups and scopes of applications, so that a lost row is detected.

Other rows are not counted: a topic records its partitions, a partition its blocks, a scope its state.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from millstream.errors import CorruptLogError
from millstream.log.embedded.checksums import checksum, verify

_STATEMENT = """
    UPDATE counters SET epoch = ?, topic_number = ?, topics = ?, consumer_groups = ?, application_scopes = ?,
    checksum = ?
"""


class Counters(NamedTuple):
    """The last epoch and topic number that were assigned, and the numbers of rows of tables."""

    epoch: int = 0
    topic_number: int = 0
    topics: int = 0
    consumer_groups: int = 0
    application_scopes: int = 0


def create(connection: sqlite3.Connection) -> None:
    """Inserts the only row of counters."""
    connection.execute("INSERT INTO counters VALUES (?, ?, ?, ?, ?, ?)", (*Counters(), checksum(*Counters())))


def _read(connection: sqlite3.Connection) -> Counters:
    row = connection.execute("SELECT * FROM counters").fetchone()
    if row is None:
        raise CorruptLogError("the log's counters are missing", hint="restore the log from a copy")
    verify("counters", row[-1], *row[:-1])
    return Counters(*row[:-1])


def add(connection: sqlite3.Connection, added: Counters) -> Counters:
    """Adds to the counters and returns the new values."""
    after = Counters(*(old + new for old, new in zip(_read(connection), added, strict=True)))
    connection.execute(_STATEMENT, (*after, checksum(*after)))
    return after


def check(connection: sqlite3.Connection, table: str, *absent: str) -> None:
    """Raises a `CorruptLogError` if a table lacks rows, or one of them is damaged.

    Called when a row is not found, or all rows are read.

    Args:
        connection: A connection that is in a transaction.
        table: A table with a counter. Its first columns are its key, its last one a checksum.
        absent: A key that was not found, so no row may have it.
    """
    expected = getattr(_read(connection), table)
    what = table.replace("_", " ")
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
    for row in rows:
        verify(what, row[-1], *row[:-1])
    if len(rows) != expected or (absent and any(row[: len(absent)] == absent for row in rows)):
        message = f"the log has {len(rows)} of its {expected} {what}, or they are not in order"
        raise CorruptLogError(message, hint="restore the log from a copy")
