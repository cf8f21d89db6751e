"""The tables of the target: what the catalog says of them, and how they are created, extended and widened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millstream.connect.postgres.client import quoted
from millstream.connect.postgres.sink.columns import Column
from millstream.connect.postgres.sink.rows import Table

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), COALESCE(b.typname, t.typname), a.attnotnull,
       a.atthasdef OR a.attidentity <> ''
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""


def sql_name(table: Table) -> str:
    """Returns the name of a table in SQL."""
    return quoted(table.name) if table.schema is None else f"{quoted(table.schema)}.{quoted(table.name)}"


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a table lacks for the records of a batch.

    Attributes:
        create: Whether the table does not exist.
        key: The columns of its primary key, if it is created.
        added: The columns to add.
        widened: The columns whose type is too narrow, with the wider type.
    """

    create: bool
    key: tuple[str, ...]
    added: tuple[Column, ...]
    widened: tuple[Column, ...]

    def __bool__(self) -> bool:
        return self.create or bool(self.added or self.widened)


class Catalog:
    """The tables that the sink writes. Each is read from the catalog of the database once."""

    def __init__(self) -> None:
        self._tables: dict[Table, dict[str, Column] | None] = {}

    def forget(self, table: Table | None = None) -> None:
        """Reads a table, or all, from the database when they are needed again."""
        if table is None:
            self._tables.clear()
        else:
            self._tables.pop(table, None)

    def columns(self, cursor: Cursor, table: Table) -> Mapping[str, Column] | None:
        """Returns the columns of a table, by name; None if there is no such table."""
        if self._tables.get(table) is None:
            cursor.execute(_COLUMNS, (sql_name(table),))
            columns = {row[0]: Column(*row) for row in cursor.fetchall()}
            self._tables[table] = columns or None
        return self._tables[table]

    def evolve(self, cursor: Cursor, table: Table, evolution: Evolution) -> None:
        """Creates, extends and widens a table.

        Other tasks may do the same at the same time: the statements wait for each other, and do nothing if their
        effect is there.
        """
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('millstream'), hashtext(%s))", (sql_name(table),))
        self.forget(table)
        existing = self.columns(cursor, table)
        name = sql_name(table)
        if existing is None:
            parts = [_definition(column, column.name in evolution.key) for column in evolution.added]
            if evolution.key:
                parts.append(f"PRIMARY KEY ({_names(evolution.key)})")
            cursor.execute(f"CREATE TABLE {name} ({', '.join(parts)})")
        else:
            changes = [f"ADD COLUMN IF NOT EXISTS {_definition(column)}" for column in evolution.added]
            for column in evolution.widened:
                if existing[column.name].base not in {column.base, "numeric"}:
                    changes.append(_widening(existing[column.name], column))
            if changes:
                cursor.execute(f"ALTER TABLE {name} {', '.join(changes)}")
        self.forget(table)


def _definition(column: Column, is_key: bool = False) -> str:
    return f"{quoted(column.name)} {column.declared}{' NOT NULL' if is_key else ''}"


def _widening(existing: Column, column: Column) -> str:
    name = quoted(column.name)
    # The cast of a float to numeric rounds to 15 digits; its text has all of them.
    through = "::text" if existing.family == "float" else ""
    return f"ALTER COLUMN {name} TYPE {column.declared} USING {name}{through}::{column.declared}"


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(quoted, names))
