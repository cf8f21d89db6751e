"""The rows of one table in a batch: how they are written, and which of them the server refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from millstream.connect.postgres.client import load_psycopg2, quoted
from millstream.connect.postgres.sink.columns import Column
from millstream.connect.postgres.sink.failures import DUPLICATE_IN_STATEMENT, copied_line, row_reason, state_of
from millstream.connect.postgres.sink.loading import Merge, Stages, copy
from millstream.connect.postgres.sink.operations import Line, Lines, Operation, merged, single
from millstream.connect.postgres.sink.refusals import RefusedRow, refused_rows
from millstream.connect.postgres.sink.rows import Change, Table
from millstream.connect.postgres.sink.tables import sql_name

if TYPE_CHECKING:
    from psycopg2 import Error
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

_PLAIN_KEYS = frozenset({"smallint", "integer", "bigint", "numeric", "boolean", "text", "bytea", "character varying"})
"""Types of which two values are equal in PostgreSQL exactly if they are in Python."""


class TableBatch:
    """The changes of one table.

    Args:
        settings: The settings of the sink.
        table: The table.
        columns: Its columns.
        changes: Its changes.

    Attributes:
        refused: The reasons of changes that cannot be written, by the places of their records.
    """

    def __init__(
        self, settings: Mapping[str, Any], table: Table, columns: Mapping[str, Column], changes: Sequence[Change]
    ) -> None:
        self._mode: str = settings["insert.mode"]
        self._merges = self._mode in {"upsert", "update"}
        self._target = sql_name(table)
        self._name = table.name
        self._copied: tuple[str, Sequence[Line]] = "", ()
        self._columns = columns
        self._key = tuple(changes[0].key)
        if self._merges and settings["missing.fields"] == "null":
            changes = self._complete(changes)
        self._changes = changes
        # Rows with keys that only the server can compare are written one by one if two of them are equal.
        self._one_by_one = False
        self._plain_key = all(columns[name].declared in _PLAIN_KEYS for name in self._key if name in columns)
        self._lines = self._lines_of(merged(changes) if self._merges else [single(change) for change in changes])
        self.refused = self._lines.refused

    def _complete(self, changes: Sequence[Change]) -> list[Change]:
        nulls = {name: None for name, column in self._columns.items() if not column.has_default}
        return [
            change if change.fields is None else change._replace(fields={**nulls, **change.fields})
            for change in changes
        ]

    def _lines_of(self, operations: Sequence[Operation]) -> Lines:
        return Lines(operations, self._columns, staged=self._merges)

    def write(self, cursor: Cursor, stages: Stages) -> None:
        """Writes all rows.

        Raises:
            psycopg2.Error: The server refuses them, or the connection is lost.
        """
        if not self._merges:
            self._append(cursor, self._lines.lines)
        elif self._one_by_one:
            for line in self._lines.lines:
                self._merge(cursor, stages, [line])
        else:
            self._merge(cursor, stages, self._lines.lines)

    def refused_by_server(self, cursor: Cursor, stages: Stages) -> dict[int, str]:
        """Writes the rows that the server accepts, and returns the reasons of the others.

        Raises:
            EqualKeysError: Some keys are equal only for the server; see `write_one_by_one`.
        """

        def attempt(lines: Sequence[Line]) -> None:
            with _savepoint(cursor, stages, lambda error: self._place_of(error, lines)):
                if self._merges:
                    self._merge(cursor, stages, lines)
                else:
                    self._append(cursor, lines)

        if self._one_by_one:
            refused = [found for line in self._lines.lines for found in refused_rows([line], attempt)]
        else:
            refused = refused_rows(self._lines.lines, attempt)
        return {line.place: reason for line, reason in refused}

    @property
    def is_one_by_one(self) -> bool:
        """Whether each change is applied by itself."""
        return self._one_by_one

    def write_one_by_one(self) -> None:
        """Makes `write` apply each change by itself: the keys of some are equal only for the server."""
        self._one_by_one = True
        self._lines = self._lines_of([single(change) for change in self._changes])

    def _place_of(self, error: Error, lines: Sequence[Line]) -> int | None:
        """Returns the place of the line at which COPY failed among some lines; None if the server does not name it."""
        relation, copied = self._copied
        number = copied_line(error, relation)
        if number is None or number >= len(copied):
            return None
        return next((place for place, line in enumerate(lines) if line.place == copied[number].place), None)

    def _append(self, cursor: Cursor, lines: Sequence[Line]) -> None:
        # A column that a row lacks gets its default. COPY has one list of columns for all its lines.
        defaults = any(self._columns[name].has_default for name in self._lines.names)
        if not defaults:
            self._copied = self._name, lines
            copy(cursor, self._target, list(map(quoted, self._lines.names)), lines)
            return
        for number, names in enumerate(self._lines.groups):
            of_group = [line for line in lines if line.group == number]
            if of_group:
                self._append_columns(cursor, names, of_group)

    def _append_columns(self, cursor: Cursor, names: Sequence[str], lines: Sequence[Line]) -> None:
        places = [self._lines.names.index(name) for name in names]
        narrowed = []
        for line in lines:
            cells = line.text[:-1].split(b"\t")
            narrowed.append(line._replace(text=b"\t".join(cells[place] for place in places) + b"\n"))
        self._copied = self._name, narrowed
        copy(cursor, self._target, list(map(quoted, names)), narrowed)

    def _merge(self, cursor: Cursor, stages: Stages, lines: Sequence[Line]) -> None:
        names = self._lines.names
        stage = stages.stage(cursor, [self._columns[name] for name in names])
        self._copied = stage.rpartition(".")[2], lines
        stages.load(cursor, stage, names, lines)
        updates_only = self._mode == "update"
        merge = Merge(self._target, self._key, stage, self._lines.groups, updates_only=updates_only)
        if not self._plain_key and len(lines) > 1 and merge.has_equal_keys(cursor):
            raise EqualKeysError
        merge.run(cursor, lines)


class EqualKeysError(Exception):
    """Two rows of a batch have keys that differ in Python and are equal in PostgreSQL."""


@contextmanager
def _savepoint(cursor: Cursor, stages: Stages, place_of: Callable[[Error], int | None]) -> Iterator[None]:
    """Turns errors of single rows into `RefusedRow`, and takes back what was written."""
    cursor.execute("SAVEPOINT rows")
    known = stages.mark()
    try:
        yield
    except load_psycopg2().Error as error:
        duplicate = state_of(error) == DUPLICATE_IN_STATEMENT
        reason = row_reason(error)
        if reason is None and not duplicate:
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT rows")
        stages.roll_back_to(known)
        if reason is None:
            raise EqualKeysError from error
        raise RefusedRow(reason, place_of(error)) from None
    cursor.execute("RELEASE SAVEPOINT rows")
