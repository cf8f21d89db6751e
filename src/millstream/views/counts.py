"""Writes rows of views, and counts how many there are: a row that is lost is then missed."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any, Literal, NamedTuple

_SAMPLE = 16


class Statements(NamedTuple):
    """How rows of a table are written. All take a whole row, but for ``find`` and ``delete``: the primary key."""

    insert: str
    update: str
    replace: str
    find: str
    delete: str
    key_columns: int


def statements(table: str, key: tuple[str, ...], others: tuple[str, ...]) -> Statements:
    """Returns the statements of a table, whose columns are those of its primary key and then others."""
    columns = (*key, *others)
    values = f"{table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    place = " AND ".join(f"{column} = ?{number}" for number, column in enumerate(key, 1))
    changes = ", ".join(f"{column} = ?{number}" for number, column in enumerate(others, len(key) + 1))
    return Statements(
        f"INSERT INTO {values} ON CONFLICT DO NOTHING",
        f"UPDATE {table} SET {changes} WHERE {place}",  # noqa: S608  (names of columns)
        f"REPLACE INTO {values}",
        f"SELECT 1 FROM {table} WHERE {place}",  # noqa: S608
        f"DELETE FROM {table} WHERE {place}",  # noqa: S608
        len(key),
    )


def put_rows(
    connection: Connection,
    table: Statements,
    store: int,
    puts: list[tuple[Any, ...]],
    deletes: list[tuple[Any, ...]],
    *,
    column: Literal["rows", "times"] = "rows",
) -> None:
    """Writes rows of a store, deletes others, and counts those that are new or gone.

    SQLite tells how many rows an INSERT has added and an UPDATE has changed, so one of the two is enough if all rows
    are new, or none is. A sample tells which to try first.
    """
    added = 0
    if puts:
        sample = puts[:: max(1, len(puts) // _SAMPLE)]
        known = sum(connection.execute(table.find, row[: table.key_columns]).fetchone() is not None for row in sample)
        if 2 * known > len(sample):
            updated = connection.executemany(table.update, puts).rowcount
            if updated < len(puts):
                added = connection.executemany(table.insert, puts).rowcount
        else:
            added = connection.executemany(table.insert, puts).rowcount
            if added < len(puts):
                connection.executemany(table.replace, puts)
    if deletes:
        added -= connection.executemany(table.delete, deletes).rowcount
    count(connection, store, added, column)


def count(connection: Connection, store: int, added: int, column: Literal["rows", "times"] = "rows") -> None:
    """Adds to the number of rows of a store; under 0, to the number of stores."""
    if added:
        statement = f"UPDATE view_counts SET {column} = {column} + ? WHERE store = ?"  # noqa: S608  (one of two names)
        connection.execute(statement, (added, store))
