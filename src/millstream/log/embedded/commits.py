"""The number of the last commit, in the database and in a file beside it, to detect lost commits.

A process that is killed leaves its last commits in SQLite's write-ahead log. If that file is damaged before the next
process opens the database, SQLite silently drops the commits after the damage. So each commit has a number. It is part
of the transaction, and is written to the file ``log.db-commit`` when the transaction is on the disk. A database whose
number is below that of the file has lost commits.

The file may be behind the database, never ahead: after a crash between the two writes, after a power failure (it is not
synchronized with the disk, which would double the cost of a commit), or if another process was quicker. The loss of
the commits that the file lacks is not detected.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import struct
import zlib
from pathlib import Path

from millstream.errors import CorruptLogError
from millstream.log.embedded.checksums import checksum, verify

FILE_SUFFIX = "-commit"

TABLE = """
CREATE TABLE commits (
    log INTEGER NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
"""

_NOTE = struct.Struct("<4sIqq")
_MAGIC = b"MLCN"


def create(connection: sqlite3.Connection) -> None:
    """Inserts the only row of the table: a random id of the log, and the number of the last commit."""
    row = (secrets.randbits(62), 0)
    connection.execute("INSERT INTO commits VALUES (?, ?, ?)", (*row, checksum(*row)))


def _read(connection: sqlite3.Connection) -> tuple[int, int]:
    row = connection.execute("SELECT log, number, checksum FROM commits").fetchone()
    if row is None:
        raise CorruptLogError("the number of the last commit is missing", hint="restore the log from a copy")
    verify("the last commit", row[-1], *row[:-1])
    return row[0], row[1]


def advance(connection: sqlite3.Connection) -> tuple[int, int]:
    """Assigns the transaction its number, as its last step. Returns the id of the log and the number."""
    log, before = _read(connection)
    number = before + 1
    connection.execute("UPDATE commits SET number = ?, checksum = ?", (number, checksum(log, number)))
    return log, number


class CommitNote:
    """The file with the number of the last commit.

    Args:
        path: The database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + FILE_SUFFIX)
        self._descriptor: int | None = None

    def write(self, log: int, number: int) -> None:
        """Writes the number of a commit that is on the disk. A failure is ignored: the file may be behind."""
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            noted = _decode(os.pread(self._descriptor, _NOTE.size, 0))
            if noted is None or noted[0] != log or noted[1] < number:
                body = _NOTE.pack(_MAGIC, 0, log, number)
                os.pwrite(self._descriptor, _NOTE.pack(_MAGIC, zlib.crc32(body), log, number), 0)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raises a `CorruptLogError` if the database lacks commits that the file has noted.

        A file that is missing, damaged, or of another log is ignored.
        """
        try:
            noted = _decode(self._path.read_bytes())  # before the database: others may commit meanwhile
        except OSError:
            return
        log, number = _read(connection)
        if noted is None or noted[0] != log or noted[1] <= number:
            return
        count = noted[1] - number
        lost = "the last commit was" if count == 1 else f"the last {count} commits were"
        database = self._path.with_name(self._path.name.removesuffix(FILE_SUFFIX))
        raise CorruptLogError(
            f"{database} has lost data: {lost} acknowledged, and {'is' if count == 1 else 'are'} missing. Its "
            "write-ahead log was damaged or deleted, or the file was replaced by an older copy",
            hint=f"restore {database.name}, {database.name}-wal and {self._path.name} from one copy; "
            f"to go on without these commits, delete {self._path.name}",
        )

    def close(self) -> None:
        """Closes the file until it is needed again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _decode(data: bytes) -> tuple[int, int] | None:
    if len(data) != _NOTE.size:
        return None
    magic, stored, log, number = _NOTE.unpack(data)
    if magic != _MAGIC or zlib.crc32(_NOTE.pack(_MAGIC, 0, log, number)) != stored:
        return None
    return log, number
