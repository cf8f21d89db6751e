"""The tables of the log, and the creation and recognition of its database.

A row has a checksum in its last column, unless it is a blob whose checksum is stored elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path

from millstream.core.data_directory import FILE_NAME, check_directory, missing
from millstream.core.failpoints import declare, reach
from millstream.errors import LogError, LogFormatError
from millstream.log.embedded import commits, counters
from millstream.log.embedded.database import Database, connect
from millstream.log.embedded.failures import translate
from millstream.views.tables import create_tables as create_view_tables

APPLICATION_ID = 0x4D4C4C47
VERSION = 3

# Larger pages speed up blocks, smaller ones single records and views: a factor of two either way costs a fifth.
PAGE_SIZE = 8192

BEFORE_LINK = declare("log.create.before-link")
AFTER_LINK = declare("log.create.after-link")

# Retention and latest_time read the rows of blocks and must not scan their bytes, which are in a table of their own.
# It was as fast as one table, and faster than one ordered by offset.
# No table has a separate index: an index that lacks an entry would hide a row without notice.
_TABLES = """
CREATE TABLE topics (
    name TEXT PRIMARY KEY,
    id INTEGER NOT NULL,
    partitions INTEGER NOT NULL,
    config TEXT NOT NULL,
    internal INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE partitions (
    topic INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    start INTEGER NOT NULL,
    next INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE blocks (
    topic INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    base INTEGER NOT NULL,
    next INTEGER NOT NULL,
    count INTEGER NOT NULL,
    min_timestamp INTEGER NOT NULL,
    max_timestamp INTEGER NOT NULL,
    append_timestamp INTEGER,
    tombstones_until INTEGER,
    size INTEGER NOT NULL,
    data INTEGER NOT NULL,
    data_checksum INTEGER NOT NULL,
    offsets BLOB,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, base)
) WITHOUT ROWID;
CREATE TABLE block_data (
    id INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE consumer_groups (
    name TEXT PRIMARY KEY,
    offsets BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE application_scopes (
    application TEXT NOT NULL,
    worker TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    batch INTEGER,
    fingerprints BLOB NOT NULL,
    offsets BLOB NOT NULL,
    holds BLOB NOT NULL,
    state BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (application, worker)
) WITHOUT ROWID;
CREATE TABLE application_state (
    application TEXT NOT NULL,
    worker TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (application, worker, name)
) WITHOUT ROWID;
CREATE TABLE counters (
    epoch INTEGER NOT NULL,
    topic_number INTEGER NOT NULL,
    topics INTEGER NOT NULL,
    consumer_groups INTEGER NOT NULL,
    application_scopes INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
"""


def open_database(directory: Path, *, create: bool, max_size: int | None) -> Database:
    """Opens the database in a data directory, and creates it if it does not exist.

    Raises:
        LogError: It does not exist, or cannot be created or opened.
        LogFormatError: The file is not a log, or has another format version.
        CorruptLogError: The file is damaged, or has lost commits.
    """
    check_directory(directory, create=create)
    path = directory / FILE_NAME
    if not path.exists():
        if not create:
            raise missing(directory)
        _create(path)
    database = Database(path, max_size)
    try:
        with database.use() as connection:
            _recognize(connection, path)
            database.note.check(connection)
    except BaseException:
        database.close()
        raise
    return database


def _create(path: Path) -> None:
    """Creates the database under a temporary name and then links it to its own.

    So no process opens an incomplete one, and of two processes that create it at the same time one succeeds.
    """
    draft = path.with_name(f".{FILE_NAME}-{secrets.token_hex(8)}")
    try:
        # SQLite creates the files beside it with the same mode.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            _fill(draft)
            reach(BEFORE_LINK)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
            reach(AFTER_LINK)
        finally:
            draft.unlink()
        _synchronize(path.parent)
    except OSError as error:
        hint = "this user must be able to write to the data directory"
        raise LogError(f"{path} cannot be created: {error.strerror}", hint=hint) from error
    except sqlite3.Error as error:
        raise translate(error, path) from error


def _fill(path: Path) -> None:
    with contextlib.closing(connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executescript(_TABLES + commits.TABLE)
        counters.create(connection)
        commits.create(connection)
        create_view_tables(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _synchronize(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _recognize(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        hint = "move it away, or choose another data directory with MILLSTREAM_DATA"
        raise LogFormatError(f"{path} is not a log of Millstream", hint=hint)
    if version != VERSION:
        hint = "choose another data directory with MILLSTREAM_DATA, or use the version of Millstream that wrote it"
        raise LogFormatError(f"{path} has format version {version}; this version reads {VERSION}", hint=hint)
