"""The file of the embedded registry: a SQLite database that several processes use at once.

Each operation opens a connection and closes it. Operations are rare, because ids and schemas are cached, and a
connection that is not open cannot be inherited by a fork, in which SQLite loses its locks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from millstream.core.data_directory import check_directory
from millstream.errors import LogError, RegistryError

FILE_NAME = "schemas.db"
APPLICATION_ID = 0x4D4C5352
VERSION = 1
BUSY_TIMEOUT_MS = 60_000

_TABLES = """
CREATE TABLE schemas (
    context TEXT NOT NULL,
    id INTEGER NOT NULL,
    type TEXT NOT NULL,
    text TEXT NOT NULL,
    refs TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    PRIMARY KEY (context, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX schemas_by_fingerprint ON schemas (context, fingerprint);
CREATE TABLE versions (
    subject TEXT NOT NULL,
    version INTEGER NOT NULL,
    context TEXT NOT NULL,
    id INTEGER NOT NULL,
    normal BLOB NOT NULL,
    deleted INTEGER NOT NULL,
    PRIMARY KEY (subject, version)
) WITHOUT ROWID;
CREATE TABLE refs (
    subject TEXT NOT NULL,
    version INTEGER NOT NULL,
    used_subject TEXT NOT NULL,
    used_version INTEGER NOT NULL,
    PRIMARY KEY (subject, version, used_subject, used_version)
) WITHOUT ROWID;
CREATE TABLE levels (
    subject TEXT PRIMARY KEY,
    level TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE ids (
    context TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) WITHOUT ROWID;
"""

# Held by each operation, and by a fork: no connection is open in a child process.
_operation = threading.RLock()


def _after_fork_in_child() -> None:
    global _operation  # noqa: PLW0603  (the thread that holds the lock does not exist in the child)
    _operation = threading.RLock()


os.register_at_fork(
    before=lambda: _operation.acquire(),  # noqa: PLW0108  (a child has another lock)
    after_in_parent=lambda: _operation.release(),  # noqa: PLW0108
    after_in_child=_after_fork_in_child,
)


class SchemaDatabase:
    """The file of a registry in a data directory. It is created by the first write."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection | None]:
        """Yields a connection in a read transaction, or None if there is no file yet."""
        if not self.path.exists():
            yield None
            return
        with self._use("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection in the only write transaction. An exception rolls it back."""
        if not self.path.exists():
            self._create()
        with self._use("BEGIN IMMEDIATE") as connection:
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _use(self, begin: str) -> Iterator[sqlite3.Connection]:
        with _operation:
            try:
                with contextlib.closing(_connect(self.path)) as connection:
                    _recognize(connection, self.path)
                    connection.execute(begin)
                    yield connection  # closing the connection rolls a transaction back
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

    def _create(self) -> None:
        """Creates the file under a temporary name and then links it to its own: no process opens an incomplete one."""
        try:
            check_directory(self.path.parent, create=True)
        except LogError as error:
            raise RegistryError(error.message, hint=error.hint) from None
        draft = self.path.with_name(f".{FILE_NAME}-{secrets.token_hex(8)}")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                with _operation, contextlib.closing(_connect(draft)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.executescript(_TABLES)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                with contextlib.suppress(FileExistsError):
                    os.link(draft, self.path)
            finally:
                draft.unlink()
        except OSError as error:
            hint = "this user must be able to write to the data directory"
            raise RegistryError(f"{self.path} cannot be created: {error.strerror}", hint=hint) from error
        except sqlite3.Error as error:
            raise translate(error, self.path) from error


def translate(error: sqlite3.Error, path: Path) -> RegistryError:
    """Returns the `RegistryError` for an error of SQLite."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        hint = "another process holds the write lock for long, or was stopped while it wrote"
        return RegistryError(f"{path} is locked by another process", hint=hint, may_pass=True)
    if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or "no such " in str(error):
        return damaged(path, str(error))
    if primary == sqlite3.SQLITE_FULL:
        return RegistryError(f"there is no room left for {path}; nothing was written", hint="free some space")
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
        hint = "this user must be able to read and write the file and its directory"
        return RegistryError(f"{path} cannot be opened for writing: {error}", hint=hint)
    return RegistryError(f"{path} cannot be read or written: {error}")


def damaged(path: Path, problem: str) -> RegistryError:
    """Returns the error for a file with wrong contents."""
    hint = "restore it from a copy, or register the schemas again in another data directory"
    return RegistryError(f"{path} is damaged: {problem}", hint=hint)


def _connect(path: Path) -> sqlite3.Connection:
    address = f"file:{urllib.parse.quote(str(path))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _recognize(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        hint = "move it away, or choose another data directory with MILLSTREAM_DATA"
        raise RegistryError(f"{path} is not a schema registry of Millstream", hint=hint)
    if version != VERSION:
        hint = "choose another data directory with MILLSTREAM_DATA, or use the version of Millstream that wrote it"
        raise RegistryError(f"{path} has format version {version}; this version reads {VERSION}", hint=hint)
