"""Connections to the database, one for each thread of each process, and transactions on them.

The database must not be open during a fork. SQLite keeps the locks of a process in its memory, and a child inherits
that memory without the locks: it would treat the database as locked, and once its parent has closed the database, the
commits of the child are lost. So all connections are closed before a fork, and opened again on both sides on demand.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import urllib.parse
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from millstream.core.failpoints import declare, reach
from millstream.errors import CorruptLogError, LogError
from millstream.log.embedded.commits import CommitNote, advance
from millstream.log.embedded.failures import is_input_output, translate

AFTER_COMMIT = declare("log.note.after-commit")

BUSY_TIMEOUT_MS = 60_000
_WAL_SIZE_LIMIT = 64 * 1024 * 1024

_databases: weakref.WeakSet[Database] = weakref.WeakSet()


class _Gate:
    """Counts the threads that use databases, so that a fork can wait until there are none."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._active = 0

    def enter(self) -> None:
        """Starts the use of a database."""
        with self._condition:
            self._active += 1

    def leave(self) -> None:
        """Ends the use of a database."""
        with self._condition:
            self._active -= 1
            self._condition.notify_all()

    def shut(self) -> None:
        """Waits until no thread uses a database, and blocks threads that want to."""
        self._condition.acquire()
        self._condition.wait_for(lambda: not self._active)

    def open(self) -> None:
        """Ends the block."""
        self._condition.release()

    def renew(self) -> None:
        """Resets the gate in a child process, which has none of the threads of its parent."""
        self._condition = threading.Condition()


_gate = _Gate()


class CommitCount:
    """Counts the commits of this process, so that its threads can wait for one."""

    def __init__(self) -> None:
        self.count = 0
        self._condition = threading.Condition()

    def add(self) -> None:
        """Counts a commit."""
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def notify(self) -> None:
        """Ends all waits, without a commit."""
        with self._condition:
            self._condition.notify_all()

    def wait(self, count: int, timeout: float) -> None:
        """Waits until the count differs, at most for so many seconds."""
        with self._condition:
            if self.count == count:
                self._condition.wait(timeout)

    def renew(self) -> None:
        """Resets the lock in a child process: a thread of its parent may hold it."""
        self._condition = threading.Condition()


class _Opened:
    """A connection in the local storage of its thread. It is collected when the thread ends."""

    __slots__ = ("__weakref__", "connection", "generation")

    def __init__(self, connection: sqlite3.Connection, generation: int) -> None:
        self.connection = connection
        self.generation = generation


class Database:
    """A SQLite database in WAL mode.

    Args:
        path: The file. It must exist.
        max_size: Bytes above which it must not grow.
    """

    def __init__(self, path: Path, max_size: int | None = None) -> None:
        self.path = path
        self.note = CommitNote(path)
        self.commits = CommitCount()
        self._identity = _identity(path)
        self._max_size = max_size
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._in_use: Counter[sqlite3.Connection] = Counter()
        # Connections of earlier generations are closed.
        self._generation = 0
        self._closed = False
        self._broken: str | None = None
        self._lock = threading.RLock()
        _databases.add(self)

    @contextlib.contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection of this thread, in autocommit mode. Raises SQLite's errors as a `LogError`."""
        _gate.enter()
        connection: sqlite3.Connection | None = None
        try:
            connection = self._begin_use()
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except UnicodeDecodeError as error:
            # A message of SQLite that quotes damaged bytes.
            raise CorruptLogError(f"{self.path} is damaged: {error}", hint="restore it from a copy") from error
        except CorruptLogError as error:
            if str(self.path) in error.message:
                raise
            raise CorruptLogError(f"{self.path}: {error.message}", hint=error.hint) from error
        finally:
            if connection is not None:
                self._end_use(connection)
            _gate.leave()

    def _begin_use(self) -> sqlite3.Connection:
        with self._lock:
            opened: _Opened | None = getattr(self._local, "opened", None)
            is_open = opened is not None and opened.generation == self._generation
            connection = opened.connection if opened is not None and is_open else self._connect()
            self._in_use[connection] += 1
            return connection

    def _end_use(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            self._in_use[connection] -= 1
            if self._in_use[connection]:
                return
            del self._in_use[connection]
            was_closed = connection not in self._connections
        if was_closed:
            connection.close()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: it sees one snapshot of the database."""
        with self.use() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._roll_back(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: the only one at a time. An exception rolls it back.

        After an I/O error no more write transactions are allowed: the content of the disk is unknown until the next
        process opens the database.
        """
        if self._broken is not None:
            hint = "repair the disk, then open the log again"
            raise LogError(f"{self.path} was not written: the disk failed before ({self._broken})", hint=hint)
        with self.use() as connection:
            self._check_identity()
            try:
                connection.execute("BEGIN IMMEDIATE")
                changes = connection.total_changes
                yield connection
                commit = advance(connection) if connection.total_changes > changes else None
                connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back(connection)
                if isinstance(error, sqlite3.Error) and is_input_output(error):
                    self._broken = str(error)
                raise
            reach(AFTER_COMMIT)
            if commit is not None:
                with self._lock:
                    self.note.write(*commit)
                self.commits.add()

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                # Closing the connection ends the transaction.
                self._local.opened = None
                with self._lock:
                    if connection in self._connections:
                        self._connections.remove(connection)  # `use` closes it

    def close(self) -> None:
        """Closes the connections of all threads."""
        self._closed = True
        self.close_connections()

    def close_connections(self) -> None:
        """Closes the connections of all threads until they are needed again.

        To close a connection that another thread uses would crash the process. So that thread is interrupted, and
        closes the connection itself.
        """
        with self._lock:
            self.note.close()
            self._generation += 1
            connections, self._connections = self._connections, []
            for connection in connections:
                if connection in self._in_use:
                    connection.interrupt()
                else:
                    connection.close()

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise LogError(f"the log in {self.path.parent} is closed", hint="open it again with open_log()")
        self._check_identity()
        connection = connect(self.path)
        if self._max_size is not None:
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count = {max(1, self._max_size // page_size)}")
        with self._lock:
            self._connections.append(connection)
        opened = self._local.opened = _Opened(connection, self._generation)
        weakref.finalize(opened, _thread_ended, weakref.ref(self), connection).atexit = False
        return connection

    def _check_identity(self) -> None:
        """Raises a `LogError` if the file was deleted or replaced: SQLite would go on writing to the deleted file."""
        if _identity(self.path) != self._identity:
            hint = "open the log again; the records of the deleted file are lost"
            raise LogError(f"{self.path} was deleted or replaced while it was in use", hint=hint)

    def _forget(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)
        connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Returns the device and inode of a file, which differ for a replacement of the file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _thread_ended(database: weakref.ref[Database], connection: sqlite3.Connection) -> None:
    owner = database()
    if owner is None:
        connection.close()
    else:
        owner._forget(connection)


def _before_fork() -> None:
    _gate.shut()
    for database in list(_databases):
        database.close_connections()


def _after_fork_in_child() -> None:
    _gate.renew()
    for database in list(_databases):
        database.commits.renew()


os.register_at_fork(before=_before_fork, after_in_parent=_gate.open, after_in_child=_after_fork_in_child)


def connect(path: Path) -> sqlite3.Connection:
    """Opens a database that exists."""
    address = f"file:{urllib.parse.quote(str(path))}?mode=rw"
    # A connection serves one thread, but the thread that closes the log closes all connections.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA cache_size = -65536")  # at most 64 MB: views are upserts of random keys
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")
    except BaseException:
        connection.close()
        raise
    return connection


def now_ms() -> int:
    """Returns the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
