"""The views of applications on a cluster: in a database of this machine, batch by batch."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from millstream.log.api import Publication
from millstream.views.tables import apply_changes, create_tables, drop_application

_BUSY_SECONDS = 30
_PROGRESS = """CREATE TABLE IF NOT EXISTS view_batches (
    application TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID"""


class LocalViews:
    """A database with views; it is made when the first batch has something for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def apply(self, publication: Publication) -> None:
        """Writes what a batch changes in views, once. It is called again for a batch that is run again."""
        if not publication.views:
            return
        with self._lock:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                name = publication.application
                row = connection.execute("SELECT batch FROM view_batches WHERE application = ?", (name,)).fetchone()
                if row is None or row[0] < publication.batch:
                    apply_changes(connection, name, publication.views)
                    connection.execute("REPLACE INTO view_batches VALUES (?, ?)", (name, publication.batch))
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def begin(self, application: str, last: int | None) -> None:
        """Deletes what is of an earlier life of an application: batches after the last one that it has published."""
        if not self._path.exists():
            return
        with self._lock:
            statement = "SELECT batch FROM view_batches WHERE application = ?"
            row = self._open().execute(statement, (application,)).fetchone()
        if row is not None and (last is None or row[0] > last):
            self.drop(application)

    def drop(self, application: str) -> None:
        """Deletes the views of an application."""
        if not self._path.exists():
            return
        with self._lock:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            drop_application(connection, application)
            connection.execute("DELETE FROM view_batches WHERE application = ?", (application,))
            connection.execute("COMMIT")

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            with closing(connection.execute("PRAGMA journal_mode = WAL")) as cursor:
                cursor.fetchall()
            create_tables(connection)
            connection.execute(_PROGRESS)
            self._connection = connection
        return self._connection
