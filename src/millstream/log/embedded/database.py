"""The connections to the database, one for each thread of each process, and transactions over them.

A process that forks must not have the database open while it does. SQLite keeps the locks of a process in its memory,
and a child inherits that memory without the locks: what it then opens, it believes to be locked, and once its parent
has closed the database, what the child commits is lost. So all connections are closed before a fork, and opened again
on both sides when they are needed.
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
    """Lets threads use databases, and a thread that forks wait until none does."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._active = 0

    def enter(self) -> None:
        """Begins to use a database."""
        with self._condition:
            self._active += 1

    def leave(self) -> None:
        """Ends it."""
        with self._condition:
            self._active -= 1
            self._condition.notify_all()

    def shut(self) -> None:
        """Waits until nobody uses a database, and lets nobody in."""
        self._condition.acquire()
        self._condition.wait_for(lambda: not self._active)

    def open(self) -> None:
        """Lets all in again."""
        self._condition.release()

    def renew(self) -> None:
        """Forgets, in a child process, the threads of its parent: the child does not have them."""
        self._condition = threading.Condition()


_gate = _Gate()


class _Opened:
    """A connection in the local storage of its thread; when the thread is gone, so is this."""

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
        """The connection of this thread, in autocommit mode. SQLite's errors become ours."""
        _gate.enter()
        connection: sqlite3.Connection | None = None
        try:
            connection = self._begin_use()
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except UnicodeDecodeError as error:
            # A message of SQLite's that quotes damaged bytes.
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
        """A transaction that sees one state of the database, whatever others write meanwhile."""
        with self.use() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._roll_back(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that may write, and is the only one that does. What raises in it is rolled back.

        After the disk has failed there are no more of them: what it holds then is known only to the next process that
        opens the database.
        """
        if self._broken is not None:
            hint = "mend the disk, then open the log anew"
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

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                # The transaction ends with its connection, if not otherwise.
                self._local.opened = None
                with self._lock:
                    if connection in self._connections:
                        self._connections.remove(connection)  # `use` closes it

    def close(self) -> None:
        """Closes the connections of all threads."""
        self._closed = True
        self.close_connections()

    def close_connections(self) -> None:
        """Closes the connections of all threads for now. They are opened again when they are needed.

        One that another thread is using must not be closed, or the process ends with it. What that thread does is
        interrupted, and it closes the connection itself.
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
        """Raises a `LogError` if the file is gone: SQLite would go on writing to what nobody can find any longer."""
        if _identity(self.path) != self._identity:
            hint = "open the log anew; what was in it is lost with the file"
            raise LogError(f"{self.path} was deleted or replaced while it was in use", hint=hint)

    def _forget(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)
        connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file from one that takes its place."""
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


os.register_at_fork(before=_before_fork, after_in_parent=_gate.open, after_in_child=_gate.renew)


def connect(path: Path) -> sqlite3.Connection:
    """Opens a database that exists."""
    address = f"file:{urllib.parse.quote(str(path))}?mode=rw"
    # A connection serves one thread, but whichever thread closes the log closes them all.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA cache_size = -65536")  # 64 MB at most: views are upserts at random places
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")
    except BaseException:
        connection.close()
        raise
    return connection


def now_ms() -> int:
    """Returns the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
