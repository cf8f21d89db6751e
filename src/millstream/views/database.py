"""Connections and read transactions for views."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from millstream.errors import StateError, UnknownStoreError, suggestion
from millstream.views.integrity import MOST_AT_ONCE, check_store
from millstream.views.tables import StoreEntry, find_store, list_stores

_SNAPSHOTS: ContextVar[dict[ViewDatabase, sqlite3.Connection]] = ContextVar("millstream_view_snapshots")
_BUSY_SECONDS = 10
_READ_AT_ONCE = 1000


class ViewDatabase:
    """A database with views, open for reading.

    It may be shared by threads, and used in a forked process. A connection serves one read at a time, and is then kept
    for the next one.

    >>> import tempfile
    >>> from millstream.serde import LONG, STRING
    >>> from millstream.state.memory import open_store
    >>> from millstream.state.spec import StoreSpec
    >>> from millstream.views.changes import change_of
    >>> from millstream.views.reader import open_view
    >>> from millstream.views.tables import apply_changes, create_tables
    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = sqlite3.connect(f"{folder.name}/log.db", isolation_level=None)
    >>> _ = writer.execute("PRAGMA journal_mode = WAL").fetchall()
    >>> create_tables(writer)
    >>> spec = StoreSpec("counts", "key-value", STRING, LONG)
    >>> store = open_store(spec, "key-value")
    >>> store.put("be", 2)
    >>> apply_changes(writer, "words", [change_of(spec, 0, store.changes())])
    >>> database = ViewDatabase(f"{folder.name}/log.db")
    >>> counts = open_view(database, "words", spec)
    >>> store.put("be", 3)
    >>> with database.snapshot():
    ...     before = counts.get("be")
    ...     apply_changes(writer, "words", [change_of(spec, 0, store.changes())])
    ...     print(before, counts.get("be"))
    2 2
    >>> counts.get("be")
    3
    >>> database.close(), writer.close(), folder.cleanup()
    (None, None, None)
    """

    def __init__(self, source: str | Path | Callable[[], sqlite3.Connection]) -> None:
        """Opens nothing yet.

        Args:
            source: The file of the database; or a function that returns a new connection to it, in autocommit mode and
                allowed to change threads.
        """
        self._source = source
        self._process = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._inherited: list[sqlite3.Connection] = []
        self._closed = False
        self._checked: set[int] = set()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction, or that of the current snapshot, for the duration of the context.

        Raises:
            StateError: The database does not exist, or cannot be read.
        """
        snapshot = _SNAPSHOTS.get({}).get(self)
        try:
            if snapshot is not None:
                yield snapshot
                return
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._give(connection)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """All reads of this thread (or asyncio task) within the context see the same committed batch.

        Yields the connection, for other reads of the same batch. Keep it short: until it ends, SQLite cannot reclaim
        the space of rows that later batches replace.
        """
        with self.reading() as connection:
            # SQLite takes the snapshot with the first read.
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            token = _SNAPSHOTS.set({**_SNAPSHOTS.get({}), self: connection})
            try:
                yield connection
            finally:
                _SNAPSHOTS.reset(token)

    def rows(self, query: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> Iterator[Any]:
        """Returns the rows of a query as of this call; long results are read as they are consumed."""
        if self in _SNAPSHOTS.get({}):
            with self.reading() as connection:
                return iter(query(connection).fetchall())
        connection = self._take()
        try:
            connection.execute("BEGIN")
            cursor = query(connection)
            first = cursor.fetchmany(_READ_AT_ONCE)
        except BaseException as error:
            self._give(connection)
            if isinstance(error, sqlite3.Error):
                raise self._unreadable(error) from error
            raise
        if len(first) < _READ_AT_ONCE:
            self._give(connection)
            return iter(first)
        return _Rows(self, connection, cursor, first)

    def check(self, connection: sqlite3.Connection, store: StoreEntry) -> None:
        """Checks all rows of a view, once for this object: then a row that is not found does not exist.

        A large view is not checked, because that takes seconds; see `millstream.views.integrity.mark_damaged`.

        Raises:
            CorruptViewError: The view is damaged.
        """
        if store.id not in self._checked:
            check_store(connection, store, MOST_AT_ONCE)
            self._checked.add(store.id)

    def is_checked(self, store: StoreEntry) -> bool:
        """Whether a view has been checked: a check of a view takes up to a second."""
        return store.id in self._checked

    def store(self, connection: sqlite3.Connection, application: str, name: str) -> StoreEntry:
        """Returns a store of an application.

        Raises:
            UnknownStoreError: The application has no such store, or has not published a batch yet.
        """
        try:
            entry = find_store(connection, application, name)
            names = [] if entry else [store.name for store in list_stores(connection, application)]
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            entry, names = None, []
        if entry is not None:
            return entry
        if names:
            hint = suggestion(name, names) or f"it has: {', '.join(names)}"
        else:
            hint = "it has none: the name of the application is wrong, or it has not been started yet"
        raise UnknownStoreError(f"application {application!r} has no store {name!r} that can be queried", hint=hint)

    def close(self) -> None:
        """Closes idle connections now, and the others at the end of their reads."""
        self._closed = True
        if self._process == os.getpid():
            while self._idle:
                self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def _take(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            # SQLite allows a forked process neither to use nor to close the connections of its parent.
            self._inherited += self._idle
            self._idle = []
            self._process = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def _give(self, connection: sqlite3.Connection) -> None:
        try:
            connection.rollback()
        except sqlite3.Error:
            connection.close()
            return
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StateError("the database of the views has been closed")
        if not isinstance(self._source, (str, Path)):
            return self._source()
        path = Path(self._source)
        if not path.is_file():
            raise StateError(
                f"database {str(path)!r} does not exist",
                hint="its application has not been started yet, or the data directory is wrong",
            )
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _unreadable(self, error: sqlite3.Error) -> StateError:
        name = repr(str(self._source)) if isinstance(self._source, (str, Path)) else "of the views"
        return StateError(f"the database {name} cannot be read: {error}")


class _Rows:
    """The rows of a query, read as they are consumed, in a transaction that ends with the last one."""

    __slots__ = ("_connection", "_cursor", "_database", "_first")

    def __init__(
        self, database: ViewDatabase, connection: sqlite3.Connection, cursor: sqlite3.Cursor, first: list[Any]
    ) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = connection
        self._cursor = cursor
        self._first = iter(first)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        for row in self._first:
            return row
        try:
            return next(self._cursor)
        except StopIteration:
            self._end()
            raise
        except sqlite3.Error as error:
            self._end()
            raise self._database._unreadable(error) from error

    def _end(self) -> None:
        if self._connection is not None:
            self._cursor.close()
            self._database._give(self._connection)
            self._connection = None

    def __del__(self) -> None:
        self._end()
