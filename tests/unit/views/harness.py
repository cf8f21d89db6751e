"""A store of several tasks, and the database that its changes are published to."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millstream.serde import STRING
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.testing.stores import read_store
from millstream.views.changes import ViewChange, change_of
from millstream.views.reader import ViewDatabase, open_view
from millstream.views.tables import apply_changes, create_tables

APPLICATION = "app"


def connect(path: Path) -> sqlite3.Connection:
    """Returns a connection that writes to a database configured as that of the log."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = OFF")
    create_tables(connection)
    return connection


def publish(connection: sqlite3.Connection, *changes: ViewChange, application: str = APPLICATION) -> None:
    connection.execute("BEGIN IMMEDIATE")
    apply_changes(connection, application, changes)
    connection.execute("COMMIT")


class Tasks:
    """The partitions of a store."""

    def __init__(self, connection: sqlite3.Connection, spec: StoreSpec, partitions: int = 1) -> None:
        self._connection = connection
        self.spec = spec
        self.stores: list[Any] = [open_store(spec) for _ in range(partitions)]

    def changes(self) -> list[ViewChange]:
        return [
            change_of(self.spec, partition, store.changes(), store.time) for partition, store in enumerate(self.stores)
        ]

    def publish(self) -> None:
        publish(self._connection, *self.changes())

    def in_memory(self, *, timestamped: bool = False) -> Any:
        return read_store(self.spec, self.stores, timestamped=timestamped)


@contextmanager
def database() -> Iterator[tuple[Path, sqlite3.Connection, ViewDatabase]]:
    """An empty database: its file, a connection that writes to it, and a database open for reading."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        connection, reader = connect(path), ViewDatabase(path)
        try:
            yield path, connection, reader
        finally:
            reader.close()
            connection.close()


def key_value(name: str = "counts", **options: Any) -> StoreSpec:
    return StoreSpec(name, "key-value", STRING, STRING, **options)


def open_(reader: ViewDatabase, spec: StoreSpec, *, timestamped: bool = False) -> Any:
    return open_view(reader, APPLICATION, spec, timestamped=timestamped)
