"""The views of applications on a cluster: a database of this machine, updated batch by batch."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from millstream.errors import LogFormatError
from millstream.log.api import Offsets, Publication
from millstream.views.changes import ViewChange
from millstream.views.checksums import checksum
from millstream.views.integrity import begin_rebuild, find_damaged
from millstream.views.tables import apply_changes, create_tables, drop_application, drop_store, store_times

_BUSY_SECONDS = 30
_PROGRESS = """CREATE TABLE IF NOT EXISTS view_batches (
    application TEXT PRIMARY KEY, batch INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"""
_PUT_PROGRESS = "REPLACE INTO view_batches VALUES (?, ?, ?)"
_OFFSETS = """CREATE TABLE IF NOT EXISTS view_offsets (
    application TEXT, topic TEXT, number INTEGER, "offset" INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (application, topic, number)) WITHOUT ROWID"""
_PUT_OFFSET = "REPLACE INTO view_offsets VALUES (?, ?, ?, ?, ?)"
_VERSION = 3


class LocalViews:
    """A database with views. It is created by the first batch that changes a view."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def apply(self, publication: Publication) -> None:
        """Applies the view changes of a batch, once. It is called again when the batch is replayed."""
        name = publication.scope.application
        applied = self.batch(name)
        if applied is None and not publication.views:
            return
        if applied is None or applied < publication.batch:
            with self._writing() as connection:
                apply_changes(connection, name, publication.views)
                connection.execute(_PUT_PROGRESS, (name, publication.batch, checksum(name, publication.batch)))

    def rebuild(self, application: str, changes: Iterable[ViewChange], batch: int) -> None:
        """Rebuilds views as of a batch, one transaction per change: other applications can write in between."""
        self._drop(application)
        for change in changes:
            with self._writing() as connection:
                apply_changes(connection, application, [change])
        with self._writing() as connection:
            connection.execute(_PUT_PROGRESS, (application, batch, checksum(application, batch)))

    def offsets(self, application: str) -> Offsets:
        """Returns the offsets up to which views follow changelogs; none if there are none, or they are damaged."""
        self.discard_damaged(application)
        if not self._path.exists():
            return {}
        with self._lock:
            statement = "SELECT * FROM view_offsets WHERE application = ?"
            rows = self._open().execute(statement, (application,)).fetchall()
        if any(checksum(*row[:4]) != row[4] for row in rows):
            return {}
        return {(topic, number): offset for _application, topic, number, offset, _checksum in rows}

    def times(self, application: str) -> dict[tuple[str, int], int]:
        """Returns the times of the stores of an application, by name and partition."""
        if not self._path.exists():
            return {}
        with self._lock:
            return store_times(self._open(), application)

    def follow(self, application: str, changes: Sequence[ViewChange], offsets: Offsets) -> None:
        """Applies changes, and records the offsets up to which the views follow changelogs."""
        with self._writing() as connection:
            apply_changes(connection, application, changes)
            rows = [(application, topic, number, offset) for (topic, number), offset in offsets.items()]
            connection.executemany(_PUT_OFFSET, [(*row, checksum(*row)) for row in rows])

    def forget(self, application: str) -> None:
        """Deletes the views and the offsets of an application."""
        self.drop(application)

    def discard_damaged(self, application: str) -> None:
        """Marks the views of an application for a rebuild if one of them is damaged."""
        if not self._path.exists():
            return
        with self._lock:
            connection = self._open()
            connection.execute("BEGIN")
            try:
                damaged = find_damaged(connection, application)
            finally:
                connection.execute("ROLLBACK")
        if damaged:
            with self._writing() as connection:
                begin_rebuild(connection, damaged)
                for table in ("view_batches", "view_offsets"):
                    connection.execute(f"DELETE FROM {table} WHERE application = ?", (application,))  # noqa: S608

    def begin(self, application: str, last: int | None) -> None:
        """Deletes views from before a reset: those of batches after the last published one."""
        applied = self.batch(application)
        if last is None or (applied is not None and applied > last):
            self.drop(application)

    def batch(self, application: str) -> int | None:
        """Returns the batch up to which the views of an application are complete; None if they are not."""
        if not self._path.exists():
            return None
        with self._lock:
            statement = "SELECT application, batch, checksum FROM view_batches WHERE application = ?"
            row = self._open().execute(statement, (application,)).fetchone()
        # A damaged row counts as none: the views are rebuilt.
        return None if row is None or checksum(*row[:2]) != row[2] else int(row[1])

    def drop(self, application: str) -> None:
        """Deletes the views of an application."""
        if self._path.exists():
            self._drop(application)

    def drop_stores(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of stores of an application."""
        if self._path.exists():
            with self._writing() as connection:
                for name in stores:
                    drop_store(connection, application, name)

    def _drop(self, application: str) -> None:
        with self._writing() as connection:
            drop_application(connection, application)
            for table in ("view_batches", "view_offsets"):
                connection.execute(f"DELETE FROM {table} WHERE application = ?", (application,))  # noqa: S608

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A write transaction."""
        with self._lock:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            with closing(connection.execute("PRAGMA journal_mode = WAL")) as cursor:
                cursor.fetchall()
            self._recognize(connection)
            create_tables(connection)
            connection.execute(_PROGRESS)
            connection.execute(_OFFSETS)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            self._connection = connection
        return self._connection

    def _recognize(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables and version != _VERSION:
            connection.close()
            hint = "delete it: applications rebuild their views when they start"
            raise LogFormatError(f"{self._path} has format version {version}; this version reads {_VERSION}", hint=hint)
