"""The local page store of a task: a SQLite file with the pages of its stores as of an earlier commit.

The file is a copy that can be lost: the changelogs contain the same rows. It spares a restarted worker the replay of
what it already had, and it holds the rows that do not fit into memory.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from zlib import crc32

import msgspec

from millstream.core.failpoints import declare, reach
from millstream.errors import DamagedLocalStoreError, StateError
from millstream.state.paged import Writes

_LOGGER = logging.getLogger("millstream.state")

BEFORE_COMMIT = declare("local-store.before-commit")
AFTER_COMMIT = declare("local-store.after-commit")

FORMAT = 1

MAX_AGE = 12 * 3600.0
"""A local store that was last written longer ago, in seconds, is discarded.

Compaction removes tombstones from a changelog after ``delete.retention.ms``, a day. A store that is replayed from an
offset before such a tombstone would keep the deleted row.
"""

_VERIFIED = 256 << 20
"""Files up to this size are verified when they are opened; the pages of larger ones when they are read."""

_BUSY_MS = 30_000
_WAL_LIMIT = 64 << 20
_AT_ONCE = 256
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}  # fmt: skip
"""The errors of a file that cannot be written, or not now. Others say that it is damaged."""

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE pages (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL);
"""


class _Unusable(StateError):  # noqa: N818  (it never leaves this module)
    """A file is intact and cannot be used, which is no cause for concern: the changelogs have the rows."""


class _Incomplete(_Unusable):
    """A file was never written completely, as that of a worker which ran for a few seconds only."""


class Entry:
    """A value to write; None deletes it. Its identity distinguishes it from later entries for the same key."""

    __slots__ = ("value",)

    def __init__(self, value: bytes | None) -> None:
        self.value = value


class _Facts(msgspec.Struct, array_like=True, frozen=True):
    """The description of a file, which it contains.

    Attributes:
        format: The version of its format.
        identity: The identity of the state.
        owner: The id of the last local store that has opened the file.
        written: When it was last written, in seconds since the epoch.
        tags: The offset up to which the pages contain each changelog; None while the changelogs are being replayed.
    """

    format: int
    identity: bytes
    owner: bytes
    written: float
    tags: dict[str, int] | None


class LocalStore:
    """A flat map in a SQLite file, which one thread reads while another one writes.

    ``stage`` makes writes visible to ``fetch`` at once. ``write`` writes them to the file later, in one transaction.
    A local store that opens a file becomes its owner. A former owner can no longer write.

    A file that is damaged, too old, of another format or another identity is replaced by an empty one. If damage is
    found later, the file is replaced when it is opened again.

    If the disk is full or refuses a write for another reason, the writes are kept in memory, and each ``write`` tries
    again to write all of them. Nothing is lost: the file keeps the rows and the tags that it had.

    Args:
        path: The file.
        identity: Names the state; a file with another identity is not used.
        name: Names the task in messages.
        backlog_limit: The bytes of writes that are kept in memory while the file cannot be written.
        clock: Returns the time, in seconds since the epoch.

    Attributes:
        tags: The offset up to which the file contains each changelog; None if it is empty.
    """

    def __init__(
        self,
        path: Path,
        identity: bytes,
        name: str,
        *,
        backlog_limit: int = 1 << 30,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._identity = identity
        self._name = name
        self._limit = backlog_limit
        self._clock = clock
        self._owner = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._staged: dict[bytes, Entry] = {}
        self._backlog: dict[bytes, Entry] = {}
        self._backlog_bytes = 0
        self._refused = False
        self.tags: dict[str, int] | None = None
        try:
            self._open()
        except (sqlite3.Error, StateError, msgspec.MsgspecError) as error:
            if _is_unavailable(error):
                self._close_connections()
                raise _cannot_open(path, error) from error
            _LOGGER.log(_level(error), "the local store of task %s is replaced: %s", name, error)
            self.discard()

    # ----- opening ---------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Replaces the file by an empty one."""
        self._close_connections()
        self._staged.clear()
        self._backlog.clear()
        self._backlog_bytes = 0
        self.tags = None
        try:
            for suffix in ("", "-wal", "-shm", "-journal"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._open()
        except (sqlite3.Error, OSError) as error:
            raise _cannot_open(self._path, error) from error

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._reader = self._writer = _connect(self._path)
        with _transaction(self._writer):
            new = not self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if new:
                for statement in _SCHEMA.strip().split(";\n"):
                    self._writer.execute(statement)
                self._save(_Facts(FORMAT, self._identity, self._owner, self._clock(), None))
            else:
                facts = self._facts()
                self._check(facts)
                self._save(msgspec.structs.replace(facts, owner=self._owner))
                self.tags = facts.tags
        if not new:
            self._verify()
        self._reader = _connect(self._path)

    def _facts(self) -> _Facts:
        row = self._writer.execute("SELECT value FROM facts WHERE name = 'facts'").fetchone()
        data = row[0] if row is not None else b""
        if len(data) < 5 or crc32(data[4:]).to_bytes(4, "big") != data[:4]:
            raise self._damaged("its description cannot be read")
        version = msgspec.msgpack.decode(data[4:])[0]
        if version != FORMAT:
            raise _Unusable(f"it has format {version}, and this version of Millstream reads format {FORMAT}")
        return msgspec.msgpack.decode(data[4:], type=_Facts)

    def _save(self, facts: _Facts) -> None:
        data = msgspec.msgpack.encode(facts)
        data = crc32(data).to_bytes(4, "big") + data
        self._writer.execute("INSERT OR REPLACE INTO facts VALUES ('facts', ?)", (data,))

    def _check(self, facts: _Facts) -> None:
        if facts.identity != self._identity:
            raise _Unusable("it belongs to another state")
        if facts.tags is None:
            raise _Incomplete("it is incomplete")
        age = self._clock() - facts.written
        if not 0 <= age + 60 <= MAX_AGE:  # a clock may go back a little
            raise _Unusable(f"it was written {int(age / 3600)} hours ago: changelogs keep deletions for a day only")

    def _verify(self) -> None:
        """Reads the whole file, if it is not large: damage is then found before any row is used."""
        if self._path.stat().st_size > _VERIFIED:
            return
        found = self._writer.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self._damaged(found)
        for key, value, checksum in self._writer.execute("SELECT key, value, checksum FROM pages"):
            self._checked(key, value, checksum)

    def _checked(self, key: bytes, value: bytes, checksum: int) -> bytes:
        if not isinstance(key, bytes) or not isinstance(value, bytes) or crc32(value, crc32(key)) != checksum:
            raise self._damaged("a page does not match its checksum")
        return value

    def _damaged(self, what: object) -> DamagedLocalStoreError:
        return DamagedLocalStoreError(f"the local store of task {self._name} is damaged: {what}")

    # ----- reading and writing ---------------------------------------------------------------------------------------

    def fetch_pages(self, keys: list[bytes]) -> list[bytes | None]:
        """Reads values that exist.

        Raises:
            DamagedLocalStoreError: The file is damaged, or a value is missing.
        """
        values = self.fetch(keys)
        if None in values:
            self._invalidate()
            raise self._damaged("a page is missing")
        return values

    def fetch(self, keys: list[bytes]) -> list[bytes | None]:
        """Reads values; None for keys that do not exist.

        Raises:
            DamagedLocalStoreError: The file is damaged.
        """
        staged = self._staged
        found: dict[bytes, bytes | None] = {}
        # What `write` has removed from the staged writes is in the file by then: look there first.
        for key in keys:
            entry = staged.get(key)
            if entry is not None:
                found[key] = entry.value
        missing = [key for key in keys if key not in found]
        try:
            for begin in range(0, len(missing), _AT_ONCE):
                found.update(self._select(missing[begin : begin + _AT_ONCE]))
        except sqlite3.Error as error:
            self._invalidate()
            raise self._damaged(error) from error
        except DamagedLocalStoreError:
            self._invalidate()
            raise
        return [found.get(key) for key in keys]

    def _select(self, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
        places = ",".join("?" * len(keys))
        rows = self._reader.execute(f"SELECT key, value, checksum FROM pages WHERE key IN ({places})", keys)  # noqa: S608
        for key, value, checksum in rows:
            yield key, self._checked(key, value, checksum)

    def _invalidate(self) -> None:
        """Marks a damaged file, so that it is replaced when it is opened again."""
        with contextlib.suppress(sqlite3.Error), _transaction(self._reader):
            self._reader.execute("DELETE FROM facts")

    def stage(self, writes: Writes) -> dict[bytes, Entry]:
        """Makes writes visible to ``fetch``; returns the entries that ``write`` writes later."""
        entries = {key: Entry(None) for key in writes.deletes}
        entries.update({key: Entry(value) for key, value in writes.puts})
        with self._lock:
            self._staged.update(entries)
        return entries

    def write(self, entries: Mapping[bytes, Entry], tags: Mapping[str, int] | None) -> None:
        """Writes staged writes to the file, those that were refused before included. Another thread may fetch.

        Args:
            entries: What ``stage`` has returned; in the same order.
            tags: The offset up to which the pages then contain each changelog; None if they are incomplete.

        Raises:
            DamagedLocalStoreError: The file is damaged, or another worker has opened it.
            StateError: The file could not be written for so long that the writes take too much memory.
        """
        self._backlog.update(entries)
        self._backlog_bytes = sum(len(entry.value or b"") for entry in self._backlog.values())
        try:
            self._write(tags)
        except sqlite3.Error as error:
            # A disk that reports errors may be full or failing: what was committed is read again, or found damaged.
            if not _is_unavailable(error) and error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
                raise self._damaged(error) from error
            self._keep_backlog(error)
            return
        if self._refused:
            _LOGGER.warning("the local store of task %s is written again", self._name)
        self._refused = False
        with self._lock:
            for key, entry in self._backlog.items():
                if self._staged.get(key) is entry:
                    del self._staged[key]
        self._backlog = {}
        self._backlog_bytes = 0

    def _write(self, tags: Mapping[str, int] | None) -> None:
        values = [(key, entry.value) for key, entry in self._backlog.items()]
        puts = [(key, value, crc32(value, crc32(key))) for key, value in values if value is not None]
        deletes = [(key,) for key, value in values if value is None]
        with _transaction(self._writer):
            if self._facts().owner != self._owner:
                raise DamagedLocalStoreError(
                    f"the local store of task {self._name} has another owner: another worker runs the task"
                )
            self._writer.executemany("DELETE FROM pages WHERE key = ?", deletes)
            self._writer.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", puts)
            kept = None if tags is None else dict(tags)
            self._save(_Facts(FORMAT, self._identity, self._owner, self._clock(), kept))
            reach(BEFORE_COMMIT)
        reach(AFTER_COMMIT)

    def _keep_backlog(self, error: sqlite3.Error) -> None:
        if not self._refused:
            _LOGGER.warning(
                "the local store of task %s cannot be written (%s): %s; its pages stay in memory until it can. The "
                "changelogs contain all rows, so nothing is lost",
                self._name, self._path, error,
            )  # fmt: skip
        self._refused = True
        if self._backlog_bytes > self._limit:
            raise StateError(
                f"the local store of task {self._name} cannot be written ({self._path}): {error}; its pages take more "
                f"memory than is allowed",
                hint="make room on the disk, or set the state directory to another one",
            ) from error

    @property
    def unwritten(self) -> int:
        """The bytes of the writes that the file has refused."""
        return self._backlog_bytes

    def close(self) -> None:
        """Closes the file."""
        self._close_connections()

    def _close_connections(self) -> None:
        for name in ("_reader", "_writer"):
            connection: sqlite3.Connection | None = getattr(self, name, None)
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("PRAGMA journal_mode = WAL")
        # A crash of the machine may lose the last transactions, never a part of one: the file is an earlier point then.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _level(error: Exception) -> int:
    """The level of the message that a file is replaced because of an error."""
    if isinstance(error, _Incomplete):
        return logging.DEBUG
    return logging.INFO if isinstance(error, _Unusable) else logging.WARNING


def _is_unavailable(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _UNAVAILABLE


def _cannot_open(path: Path, error: Exception) -> StateError:
    return StateError(
        f"the local store {path} cannot be opened: {error}",
        hint="make room on its disk, or check the permissions of the state directory",
    )
