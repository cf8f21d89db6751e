"""The number and the time of the last commit that changed the views of an application: the position of a reader.

The commit of a batch writes them in the transaction that changes the views, so a reader finds them in the snapshot of
the rows. Numbers of an application only grow, also after a reset, and after the deletion of a ``views.db``: a number is
greater than the last one, and not less than the time in milliseconds.
"""

from __future__ import annotations

import sqlite3
import time
from sqlite3 import Connection
from typing import Any, NamedTuple

from millstream.views.checksums import checksum, damaged

TABLE = """CREATE TABLE IF NOT EXISTS view_commits (
    application TEXT PRIMARY KEY, number INTEGER NOT NULL, time INTEGER NOT NULL, checksum INTEGER NOT NULL)
    WITHOUT ROWID"""
_READ = "SELECT application, number, time, checksum FROM view_commits WHERE application = ?"
_WRITE = "REPLACE INTO view_commits VALUES (?, ?, ?, ?)"


class Commit(NamedTuple):
    """A commit of an application.

    Attributes:
        number: Its number.
        time: When it was made, in milliseconds.
    """

    number: int
    time: int


def note_commit(connection: Connection, application: str, *, changes: bool) -> None:
    """Gives the transaction of the caller a number.

    Args:
        connection: The connection.
        application: The application.
        changes: Whether the transaction changes a view. If not, only an application that has views gets a number.
    """
    try:
        row = _read(connection, application)
    except _NoTableError:  # an earlier version created the database
        connection.execute(TABLE)
        row = None
    if row is None and not changes:
        return
    now = int(time.time() * 1000)
    # A damaged number is not used: the time is greater, unless the clock was set back.
    number = max(row[1] + 1, now) if row is not None and _is_intact(row) else now
    commit = (application, number, now)
    connection.execute(_WRITE, (*commit, checksum(*commit)))


def last_commit(connection: Connection, application: str) -> Commit | None:
    """Returns the last commit of an application; None before the first one.

    Raises:
        CorruptViewError: The row of the commit is damaged.
    """
    try:
        row = _read(connection, application)
    except _NoTableError:
        return None
    if row is None:
        return None
    if not _is_intact(row):
        hint = "the next commit of its application repairs it"
        raise damaged(f"the number of the last commit of application {application!r}", hint)
    return Commit(row[1], row[2])


class _NoTableError(Exception):
    pass


def _read(connection: Connection, application: str) -> Any:
    try:
        return connection.execute(_READ, (application,)).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise _NoTableError from None


def _is_intact(row: Any) -> bool:
    return bool(checksum(*row[:-1]) == row[-1])
