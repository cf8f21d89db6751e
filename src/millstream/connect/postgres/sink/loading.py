"""Writes lines to a table: COPY into it, or COPY into a staging table and statements that merge it."""

# ruff: noqa: S608  (statements consist of quoted names and numbers)
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.connect.postgres.client import quoted
from millstream.connect.postgres.sink.columns import Column
from millstream.connect.postgres.sink.encoding import CopyLines
from millstream.connect.postgres.sink.operations import Line
from millstream.connect.postgres.sink.rows import RESERVED

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

_COPY_BLOCK = 1 << 18
_MOST_STAGES = 64
PLACE, GROUP, DELETES = (quoted(f"{RESERVED}{name}") for name in ("place", "group", "deletes"))


def copy(cursor: Cursor, table: str, columns: Sequence[str], lines: Sequence[Line]) -> None:
    """Appends lines to a table. Columns are identifiers in SQL."""
    source = CopyLines([line.text for line in lines])
    cursor.copy_expert(f"COPY {table} ({', '.join(columns)}) FROM STDIN", source, _COPY_BLOCK)


class Stages:
    """The staging tables of a session. Each is temporary, has the columns of its target, and is empty at the commit."""

    def __init__(self) -> None:
        self._names: dict[tuple[tuple[str, str], ...], str] = {}
        self._new: list[tuple[tuple[str, str], ...]] = []
        self._used: set[str] = set()
        self._count = 0

    def stage(self, cursor: Cursor, columns: Sequence[Column]) -> str:
        """Returns the name of a staging table, which is created if there is none with these columns."""
        form = tuple((column.name, column.declared) for column in columns)
        name = self._names.get(form)
        if name is not None:
            return name
        self._count += 1
        name = f"pg_temp.millstream_stage_{self._count}"
        own = (f"{PLACE} integer", f"{GROUP} integer", f"{DELETES} boolean")
        definitions = (*own, *(f"{quoted(column)} {declared}" for column, declared in form))
        cursor.execute(
            f"CREATE TEMPORARY TABLE {name.partition('.')[2]} ({', '.join(definitions)}) ON COMMIT DELETE ROWS"
        )
        self._names[form] = name
        self._new.append(form)
        return name

    def load(self, cursor: Cursor, stage: str, columns: Sequence[str], lines: Sequence[Line]) -> None:
        """Fills a staging table with lines, in place of those that this transaction has written to it."""
        if stage in self._used:
            cursor.execute(f"DELETE FROM {stage}")
        self._used.add(stage)
        copy(cursor, stage, (PLACE, GROUP, DELETES, *map(quoted, columns)), lines)

    def mark(self) -> int:
        """Returns a mark for `roll_back_to`."""
        return len(self._new)

    def roll_back_to(self, mark: int) -> None:
        """Forgets the tables that were created after a mark: the server has removed them."""
        for form in self._new[mark:]:
            self._names.pop(form, None)
        del self._new[mark:]

    @property
    def is_full(self) -> bool:
        """Whether the session has so many staging tables that it should begin anew."""
        return len(self._names) >= _MOST_STAGES

    def drop(self, cursor: Cursor) -> None:
        """Drops all staging tables."""
        cursor.execute(f"DROP TABLE {', '.join(self._names.values())}")
        self._names.clear()

    def end(self, *, committed: bool) -> None:
        """Notes the end of the transaction. A rollback has removed the tables that it has created."""
        if not committed:
            self.roll_back_to(0)
        self._new.clear()
        self._used.clear()


class Merge:
    """The statements that merge a staging table into its target.

    Args:
        target: The target, in SQL.
        key: The columns of the primary key.
        stage: The staging table, in SQL.
        groups: The columns that each group of lines writes.
        updates_only: Whether rows that do not exist are skipped.
    """

    def __init__(
        self,
        target: str,
        key: Sequence[str],
        stage: str,
        groups: Sequence[Sequence[str]],
        *,
        updates_only: bool,
    ) -> None:
        self._target = target
        self._key = [quoted(name) for name in key]
        self._stage = stage
        self._same_key = " AND ".join(f"t.{name} = s.{name}" for name in self._key)
        write = self._update if updates_only else self._upsert
        self._writes = [(number, write(tuple(map(quoted, names)))) for number, names in enumerate(groups)]

    def run(self, cursor: Cursor, lines: Sequence[Line]) -> None:
        """Deletes and writes the rows of staged lines. No two of them have the same key."""
        of_groups = {line.group for line in lines}
        if any(line.deletes for line in lines):
            cursor.execute(f"DELETE FROM {self._target} t USING {self._stage} s WHERE s.{DELETES} AND {self._same_key}")
        for number, statement in self._writes:
            if statement and number in of_groups:
                # No parameters: a percent sign in a name would be taken for one.
                cursor.execute(f"{statement[0]} AND s.{GROUP} = {number} {statement[1]}")

    def _upsert(self, columns: Sequence[str]) -> tuple[str, str]:
        names = ", ".join(columns)
        sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name not in self._key)
        action = f"UPDATE SET {sets}" if sets else "NOTHING"
        insert = f"INSERT INTO {self._target} ({names}) OVERRIDING SYSTEM VALUE"
        select = f"SELECT {names} FROM {self._stage} s WHERE true"
        return f"{insert} {select}", f"ORDER BY s.{PLACE} ON CONFLICT ({', '.join(self._key)}) DO {action}"

    def _update(self, columns: Sequence[str]) -> tuple[str, str] | None:
        sets = ", ".join(f"{name} = s.{name}" for name in columns if name not in self._key)
        if not sets:
            return None
        return f"UPDATE {self._target} t SET {sets} FROM {self._stage} s WHERE {self._same_key}", ""

    def has_equal_keys(self, cursor: Cursor) -> bool:
        """Whether two staged lines have keys that the server takes for equal."""
        keys = ", ".join(self._key)
        cursor.execute(f"SELECT 1 FROM {self._stage} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1")
        return cursor.fetchone() is not None
