"""Writes rows of views and counts them, so that the loss of a row is detected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from sqlite3 import Connection
from typing import Any, Literal, NamedTuple

_SAMPLE = 16
_CHUNK = 200
"""How many rows one statement writes: a statement for each row would cost a fifth more."""


class Statements(NamedTuple):
    """The SQL statements that write the rows of a table.

    Attributes:
        insert: Inserts rows, and leaves existing ones as they are.
        replace: Inserts rows, and replaces existing ones.
        find: Selects a row by its primary key.
        delete: Deletes a row by its primary key.
        columns: How many columns a row has.
        key_columns: How many of them, at its beginning, are the primary key.
        matches: Counts how many of some primary keys exist, as a pattern for the list of keys.
    """

    insert: str
    replace: str
    find: str
    delete: str
    columns: int
    key_columns: int
    matches: str


def statements(table: str, key: tuple[str, ...], others: tuple[str, ...]) -> Statements:
    """Returns the statements of a table, whose columns are those of its primary key and then others."""
    columns = (*key, *others)
    into = f"{table} ({', '.join(columns)}) VALUES {{}}"
    condition = " AND ".join(f"{column} = ?{number}" for number, column in enumerate(key, 1))
    joined = " AND ".join(f"{table}.{column} = keys.column{number}" for number, column in enumerate(key, 1))
    return Statements(
        f"INSERT INTO {into} ON CONFLICT DO NOTHING",
        f"REPLACE INTO {into}",
        f"SELECT 1 FROM {table} WHERE {condition}",  # noqa: S608  (names of columns)
        f"DELETE FROM {table} WHERE {condition}",  # noqa: S608
        len(columns),
        len(key),
        f"SELECT count(*) FROM (VALUES {{}}) AS keys CROSS JOIN {table} ON {joined}",  # noqa: S608
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
    """Writes rows of a store, deletes others, and updates the number of rows.

    If a sample finds no existing row, all rows are probably new, and an INSERT reports how many of them were. Otherwise
    the existing rows are counted first.
    """
    added = 0
    if puts:
        sample = puts[:: max(1, len(puts) // _SAMPLE)]
        if any(connection.execute(table.find, row[: table.key_columns]).fetchone() for row in sample):
            added = len(puts) - _count_existing(connection, table, puts)
            write_rows(connection, table.replace, table.columns, puts)
        else:
            added = write_rows(connection, table.insert, table.columns, puts)
            if added < len(puts):
                write_rows(connection, table.replace, table.columns, puts)
    if deletes:
        added -= connection.executemany(table.delete, deletes).rowcount
    count(connection, store, added, column)


def write_rows(connection: Connection, statement: str, columns: int, rows: list[tuple[Any, ...]]) -> int:
    """Writes rows, many with each statement; returns how many the statements report as changed."""
    return sum(
        connection.execute(statement.format(_places(len(chunk), columns)), list(chain.from_iterable(chunk))).rowcount
        for chunk in _chunks(rows)
    )


def _count_existing(connection: Connection, table: Statements, rows: list[tuple[Any, ...]]) -> int:
    """Counts the rows whose primary key is in the table."""
    width = table.key_columns
    existing = 0
    for chunk in _chunks(rows):
        keys = list(chain.from_iterable(row[:width] for row in chunk))
        existing += connection.execute(table.matches.format(_places(len(chunk), width)), keys).fetchone()[0]
    return existing


def _chunks(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))


@lru_cache(maxsize=_CHUNK)
def _places(rows: int, columns: int) -> str:
    """The placeholders of some rows: ``(?, ?), (?, ?)``."""
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def count(connection: Connection, store: int, added: int, column: Literal["rows", "times"] = "rows") -> None:
    """Adds to the number of rows of a store; for store 0, to the number of stores."""
    if added:
        statement = f"UPDATE view_counts SET {column} = {column} + ? WHERE store = ?"  # noqa: S608  (one of two names)
        connection.execute(statement, (added, store))
