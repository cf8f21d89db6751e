"""Group commit: publications that are ready at the same time share one transaction and one disk sync."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from millstream.errors import LogError
from millstream.log.embedded.database import Database

T = TypeVar("T")


class _Entry(Generic[T]):
    """A change that waits to be written, and then its result."""

    def __init__(self, change: Callable[[sqlite3.Connection], T]) -> None:
        self.change = change
        self.values: list[T] = []
        self.error: BaseException | None = None
        self.is_done = False

    def run(self, connection: sqlite3.Connection) -> None:
        """Makes the change."""
        self.values = [self.change(connection)]

    def result(self) -> T:
        """Returns the result, or raises the error."""
        if self.error is not None:
            raise self.error
        return self.values[0]


class GroupCommit(Generic[T]):
    """Writes changes of several threads of this process. One of them writes those of all that wait.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Entry[T]] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of changes that wait for the next transaction."""
        return len(self._waiting)

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Makes a change in a write transaction. Returns its result when it is on the disk.

        If the change raises a `LogError`, its own writes alone are rolled back.
        """
        entry = _Entry(change)
        with self._lock:
            self._waiting.append(entry)
        with self._writing:
            if not entry.is_done:
                with self._lock:
                    entries, self._waiting = self._waiting, []
                self._write(entries)
        return entry.result()

    def _write(self, entries: list[_Entry[T]]) -> None:
        try:
            with self._database.write() as connection:
                if len(entries) == 1:
                    entries[0].run(connection)
                else:
                    for entry in entries:
                        _run_within(connection, entry)
        except BaseException as error:
            for entry in entries:
                entry.error = entry.error or (
                    error if isinstance(error, LogError) else LogError(f"a group of changes was not written: {error!r}")
                )
            if not isinstance(error, LogError):
                raise
        finally:
            for entry in entries:
                entry.is_done = True


def _run_within(connection: sqlite3.Connection, entry: _Entry[T]) -> None:
    """Makes one change of several, which can be rolled back alone."""
    connection.execute("SAVEPOINT change")
    try:
        entry.run(connection)
    except LogError as error:
        entry.error = error
        connection.execute("ROLLBACK TO change")
    connection.execute("RELEASE change")
