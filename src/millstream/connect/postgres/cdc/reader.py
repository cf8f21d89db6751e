"""Reads the rows of tables in the text format, under a snapshot of the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.connect.postgres.cdc.catalog import Catalog, CatalogTable
from millstream.connect.postgres.cdc.visibility import PgSnapshot
from millstream.connect.postgres.client import Server, connector_errors, literal, load_psycopg2, quoted, rows

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection, cursor as Cursor  # noqa: N812

    from millstream.connect.postgres.cdc.tables import TextRow

_READ_BYTES = 16 * 2**20
"""Fewer rows are read at a time if these are expected to be larger than this."""

LOCK_TIMEOUT_MS = 1_000


class ChunkRows(NamedTuple):
    """Rows that were read under a snapshot of their own.

    Attributes:
        rows: The rows, in the order of the key.
        snapshot: The snapshot.
        mark: All transactions that the snapshot sees have their commit records before this position.
        complete: Whether there are no rows after them.
    """

    rows: list[TextRow]
    snapshot: PgSnapshot
    mark: int
    complete: bool


class RowReader:
    """A connection that reads rows, with all values as texts."""

    def __init__(self, server: Server, application: str, catalog: Catalog) -> None:
        self._connection: Connection = server.connect(application=application)
        self._catalog = catalog
        self._block = 8192
        with connector_errors("reading rows"), self._cursor() as cursor:
            if self._connection.server_version >= 140_000:
                cursor.execute("set idle_session_timeout = 0")
            cursor.execute("set idle_in_transaction_session_timeout = 0")
            self._block = int(rows(cursor, "show wal_block_size")[0][0])

    def close(self) -> None:
        """Closes the connection, and ends its transaction."""
        self._connection.close()

    def open_snapshot(self, snapshot: str, tables: Sequence[CatalogTable]) -> None:
        """Begins a transaction under an exported snapshot. It holds the tables as they are, until it ends."""
        with connector_errors("using the exported snapshot"), self._cursor() as cursor:
            cursor.execute("begin isolation level repeatable read read only")
            cursor.execute(f"set transaction snapshot {literal(snapshot)}")
            for table in tables:
                cursor.execute(f"lock table {table.quoted_name} in access share mode")

    def is_empty(self, table: CatalogTable) -> bool:
        """Returns whether a table has no rows in the snapshot."""
        with connector_errors(f"reading table {table.full_name}"), self._cursor() as cursor:
            return not rows(cursor, f"select 1 from {table.quoted_name}{_where(table.filter)} limit 1")  # noqa: S608  (quoted)

    def scan(self, table: CatalogTable, size: int) -> Iterator[list[TextRow]]:
        """Yields all rows of a table in the open snapshot, in the order of its key if it has one."""
        self._as_texts(table)
        order = f" order by {_columns(table.key)}" if table.key else ""
        query = f"select {_names(table)} from {table.quoted_name}{_where(table.filter)}{order}"  # noqa: S608  (quoted)
        with connector_errors(f"reading table {table.full_name}", hint=_rights(table)), self._cursor() as cursor:
            cursor.execute(f"declare rows no scroll cursor for {query}")
        while True:
            with connector_errors(f"reading table {table.full_name}"), self._cursor() as cursor:
                chunk = rows(cursor, f"fetch {_fitting(table, size)} from rows")
                if not chunk:
                    cursor.execute("close rows")
                    return
            yield [*chunk]

    def chunk(self, table: CatalogTable, after: tuple[str, ...] | None, size: int) -> ChunkRows | None:
        """Reads the rows after a key, under a snapshot of their own.

        Returns:
            The rows; None: the definition of the table is being changed, or has been since it was looked up.
        """
        self._as_texts(table)
        psycopg2 = load_psycopg2()
        count = _fitting(table, size)
        beyond = None
        if after is not None:
            beyond = f"({_columns(table.key)}) > ({', '.join(literal(text) for text in after)})"
        query = (
            f"select {_names(table)} from {table.quoted_name}{_where(table.filter, beyond)} "  # noqa: S608  (quoted)
            f"order by {_columns(table.key)} limit {count + 1}"
        )
        with connector_errors(f"reading table {table.full_name}", hint=_rights(table)), self._cursor() as cursor:
            cursor.execute("begin isolation level repeatable read read only")
            try:
                # The lock comes before the snapshot: a table that is rewritten in between would look empty.
                cursor.execute(f"set local lock_timeout = {LOCK_TIMEOUT_MS}")
                cursor.execute(f"lock table {table.quoted_name} in access share mode")
                ((snapshot, mark),) = rows(
                    cursor, "select pg_current_snapshot(), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
                )
                chunk = rows(cursor, query)
            except (
                psycopg2.errors.LockNotAvailable,
                psycopg2.errors.UndefinedTable,
                psycopg2.errors.UndefinedColumn,
            ):
                return None
            finally:
                if not self._connection.closed:
                    cursor.execute("rollback")
        return ChunkRows([*chunk[:count]], PgSnapshot.parse(snapshot), self._mark(int(mark)), len(chunk) <= count)

    def _mark(self, insert: int) -> int:
        """Returns a position that the stream reaches also if nothing more is written.

        The server inserts behind the header of a page, and the stream ends before the header.
        """
        return insert - insert % self._block if insert % self._block <= 40 else insert

    def _as_texts(self, table: CatalogTable) -> None:
        text = load_psycopg2().extensions.UNICODE
        self._connection.string_types.update({column.type: text for column in table.columns})

    def _cursor(self) -> Cursor:
        return self._connection.cursor()


def _names(table: CatalogTable) -> str:
    return _columns([column.name for column in table.columns])


def _columns(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _where(*conditions: str | None) -> str:
    given = [f"({condition})" for condition in conditions if condition]
    return f" where {' and '.join(given)}" if given else ""


def _fitting(table: CatalogTable, size: int) -> int:
    return max(1, min(size, _READ_BYTES // max(table.row_bytes, 1)))


def _rights(table: CatalogTable) -> str:
    return f"run: GRANT SELECT ON {table.quoted_name} TO the role of the connector, and GRANT USAGE ON its schema"


def key_of(table: CatalogTable, row: Any) -> tuple[str, ...]:
    """Returns the key of a row in the text format, in the order of the key."""
    places = {column.name: place for place, column in enumerate(table.columns)}
    return tuple(row[places[name]] for name in table.key)
