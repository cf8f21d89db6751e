"""Triggers of SQLite.

SQLite has one writer at a time, and the change table numbers its rows without reuse: the order of the numbers is the
order of the commits.
"""

# ruff: noqa: S608  (statements consist of quoted names)
from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from millstream.connect.postgres.client import literal, quoted
from millstream.connect.triggers.changes import Change, ChangeTable
from millstream.errors import ConfigError, ConnectorError

_OPERATIONS = {"c": ("INSERT", (None, "NEW")), "u": ("UPDATE", ("OLD", "NEW")), "d": ("DELETE", ("OLD", None))}
_PATIENCE_MS = 50
_MOST_COLUMNS = 400
"""An expression of SQLite has 1,000 levels at most."""


class SqliteChanges(ChangeTable):
    """The change table of a SQLite file."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._table = quoted(name)

    def install(self, tables: Sequence[str]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (sequence INTEGER PRIMARY KEY AUTOINCREMENT, tbl TEXT, "
                "op TEXT, keys TEXT, before TEXT, after TEXT, ts_ms INTEGER)"
            )
            connection.execute(
                f"INSERT OR IGNORE INTO {self._table} (sequence, op, after) VALUES (0, 'i', ?)", (uuid4().hex,)
            )
            self._drop_triggers()
            for table in tables:
                self._create_triggers(table)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def remove(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._drop_triggers()
        self._connection.execute(f"DROP TABLE IF EXISTS {self._table}")
        self._connection.execute("COMMIT")

    def _drop_triggers(self) -> None:
        prefix = f"{self._name}:"
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, ?) = ?", (len(prefix), prefix)
        )
        for (name,) in found.fetchall():
            self._connection.execute(f"DROP TRIGGER {quoted(name)}")

    def _create_triggers(self, table: str) -> None:
        columns = self._connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        if not columns:
            raise ConfigError(f"TriggerSource: there is no table {table}", hint="correct table.include.list")
        if len(columns) > _MOST_COLUMNS:
            raise ConfigError(f"TriggerSource: table {table} has more than {_MOST_COLUMNS} columns")
        names = [column[1] for column in columns]
        keys = [column[1] for column in sorted(columns, key=lambda column: column[5]) if column[5]]
        for operation, (event, (before, after)) in _OPERATIONS.items():
            values = [literal(table), literal(operation), literal(json.dumps(keys))]
            values += [_row(names, before), _row(names, after)]
            trigger = quoted(f"{self._name}:{operation}:{table}")
            self._connection.execute(
                f"CREATE TRIGGER {trigger} AFTER {event} ON {quoted(table)} BEGIN "
                f"INSERT INTO {self._table} (tbl, op, keys, before, after, ts_ms) VALUES ({', '.join(values)}, "
                "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)); END"
            )

    def installation(self) -> str:
        row = None
        try:
            row = self._connection.execute(f"SELECT after FROM {self._table} WHERE sequence = 0").fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
        if row is None:
            raise ConnectorError(f"there is no change table {self._name}", hint="call TriggerSource.install() first")
        return str(row[0])

    def bound(self) -> Iterator[int | None]:
        [(highest,)] = self._connection.execute(f"SELECT max(sequence) FROM {self._table}").fetchall()
        yield highest or None

    def changes(self, after: int, to: int, limit: int) -> list[Change]:
        found = self._connection.execute(
            f"SELECT sequence, tbl, op, keys, before, after, ts_ms FROM {self._table} "
            "WHERE sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?",
            (after, to, limit),
        )
        return [
            Change(sequence, (table,), operation, tuple(json.loads(keys)), _values(old), _values(new), None, ts_ms)
            for sequence, table, operation, keys, old, new, ts_ms in found.fetchall()
        ]

    def discard(self, to: int) -> None:
        # A writer may hold the lock for long. The source must not wait for it: the next call deletes the changes.
        [(patience,)] = self._connection.execute("PRAGMA busy_timeout").fetchall()
        self._connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        try:
            self._connection.execute(f"DELETE FROM {self._table} WHERE sequence > 0 AND sequence <= ?", (to,))
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {patience}")

    def close(self) -> None:
        self._connection.close()


def _row(columns: Sequence[str], row: str | None) -> str:
    """Returns the expression of a row as JSON: for each column its class of storage and its value.

    JSON has no form of bytes, and SQLite writes floats to it with 15 digits: both become text.
    """
    if row is None:
        return "NULL"
    cells = []
    for column in columns:
        value = f"{row}.{quoted(column)}"
        forms = f"WHEN 'blob' THEN hex({value}) WHEN 'real' THEN printf('%!.17g', {value})"
        text = f"CASE typeof({value}) {forms} ELSE {value} END"
        cells.append(f"{literal(json.dumps(column, ensure_ascii=False) + ':')} || json_array(typeof({value}), {text})")
    return "'{' || " + " || ',' || ".join(cells) + " || '}'"


def _values(row: str | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: _value(kind, value) for name, (kind, value) in json.loads(row).items()}


def _value(kind: str, value: Any) -> Any:
    if kind == "blob":
        return bytes.fromhex(value)
    return float(value) if kind == "real" else value
