"""Translates errors of SQLite to those of the log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from millstream.errors import CorruptLogError, LogBusyError, LogError, LogFullError

_RESTORE = "restore it from a copy; its records may also be in the topics or files of their origin"
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is damaged at its start, or is not a database",
    # Rows that must be unique are not: the tables are inconsistent.
    sqlite3.SQLITE_CONSTRAINT: "contradicts itself",
}


def is_input_output(error: sqlite3.Error) -> bool:
    """Returns whether the disk failed."""
    return _code(error) & 0xFF == sqlite3.SQLITE_IOERR


def translate(error: sqlite3.Error, path: Path) -> LogError:
    """Returns the `LogError` for an error of SQLite."""
    code = _code(error)
    primary = code & 0xFF
    if primary in _DAMAGED:
        return CorruptLogError(f"{path} {_DAMAGED[primary]}: {error}", hint=_RESTORE)
    # The statements match the tables, so otherwise the schema is damaged.
    if code == sqlite3.SQLITE_IOERR_SHORT_READ or "no such " in str(error) or "Could not decode to UTF-8" in str(error):
        return CorruptLogError(f"{path} is damaged: {error}", hint=_RESTORE)
    if primary == sqlite3.SQLITE_FULL:
        hint = "free some space, or reduce the retention of topics (retention.ms, retention.bytes)"
        return LogFullError(f"there is no room left for {path}; nothing was written", hint=hint)
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        hint = "another process holds the write lock for long, or was stopped while it wrote"
        return LogBusyError(f"{path} is locked by another process", hint=hint)
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
        hint = "this user must be able to read and write the file and its directory"
        return LogError(f"{path} cannot be opened for writing: {error}", hint=hint)
    if primary == sqlite3.SQLITE_IOERR:
        name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
        hint = "check the disk, quotas, limits on file sizes and the system log"
        return LogError(f"{path} cannot be read or written: {error} ({name})", hint=hint)
    return LogError(f"{path}: {error}")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0)
