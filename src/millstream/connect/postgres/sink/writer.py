"""Writes batches of records, each in one transaction with its offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.connect.api import RefusedRecords, SinkRecord, SinkWriter
from millstream.connect.postgres.client import load_psycopg2
from millstream.connect.postgres.sink.batches import EqualKeysError, TableBatch
from millstream.connect.postgres.sink.failures import (
    DUPLICATE_IN_STATEMENT,
    STALE,
    failure,
    is_retried,
    row_reason,
    state_of,
)
from millstream.connect.postgres.sink.fitting import Fitting
from millstream.connect.postgres.sink.loading import Stages
from millstream.connect.postgres.sink.offsets import OffsetTable, Partition
from millstream.connect.postgres.sink.refusals import Refusal
from millstream.connect.postgres.sink.rows import Change, RowMapping, Table
from millstream.connect.postgres.sink.session import Session
from millstream.connect.postgres.sink.tables import Catalog
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

_ATTEMPTS = 5
"""How often a transaction is tried that fails because of others, or because a table has changed."""

_UNEVOLVED = ("0A", "22", "2B", "54")
"""Classes of SQLSTATE of a table that cannot be changed: a view uses the column, there are too many columns, …"""


class PostgresWriter(SinkWriter):
    """Writes the records of some partitions.

    Args:
        settings: The settings of the sink.
        session: The connection. The writer closes it.
        offsets: The table of offsets.
    """

    def __init__(self, settings: Mapping[str, Any], session: Session, offsets: OffsetTable) -> None:
        self._settings = settings
        self._session = session
        self._offsets = offsets
        self._mapping = RowMapping(settings)
        self._catalog = Catalog()
        self._stages = Stages()

    def positions(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]:
        """Returns the recorded offsets to continue at, and fences earlier instances of the partitions."""
        with self._session.time_limit(), self._session.transaction("reading the offsets") as cursor:
            return self._offsets.claim(cursor, partitions, {})

    def write(self, records: Sequence[SinkRecord], offsets: Mapping[Partition, int]) -> None:
        """Writes records and offsets in one transaction."""
        refused: dict[int, str] = {}
        changes = self._changes(records, refused)
        places = {(record.origin, record.partition): record.offset + 1 for record in records} | dict(offsets)
        with self._session.time_limit():
            for _attempt in range(_ATTEMPTS):
                batches = self._prepare(changes, refused)
                if refused:
                    raise RefusedRecords(refused)
                if self._write(batches, places):
                    return
        raise ConnectorError("PostgreSQL, writing a batch: other transactions interfere again and again", may_pass=True)

    def close(self) -> None:
        """Closes the connection."""
        self._session.close()

    def _changes(self, records: Sequence[SinkRecord], refused: dict[int, str]) -> dict[Table, list[Change]]:
        tables: dict[Table, list[Change]] = {}
        for place, record in enumerate(records):
            try:
                change = self._mapping.change(place, record)
            except Refusal as refusal:
                refused[place] = str(refusal)
                continue
            if change is None:
                continue
            others = tables.setdefault(change.table, [])
            if others and tuple(change.key) != tuple(others[0].key):
                if change.key.keys() != others[0].key.keys():
                    columns, named = ", ".join(change.key), ", ".join(others[0].key)
                    refused[place] = f"the key has the columns {columns}, other records of the table have {named}"
                    continue
                change = change._replace(key={name: change.key[name] for name in others[0].key})
            others.append(change)
        return tables

    def _prepare(self, changes: Mapping[Table, list[Change]], refused: dict[int, str]) -> list[TableBatch]:
        """Changes the tables as far as the records need it, and returns the rows of each table."""
        batches = []
        # In one order: transactions of other tasks lock the same tables.
        for table in sorted(changes, key=lambda table: (table.schema or "", table.name)):
            fitting = self._fit(table, changes[table])
            refused.update(fitting.refused)
            accepted = [change for change in changes[table] if change.place not in fitting.refused]
            with self._session.transaction(f"reading the table {table}") as cursor:
                columns = self._catalog.columns(cursor, table)
            if columns is None:
                reason = f"there is no table {table}, and the record has no value from which it could be created"
                refused.update((change.place, reason) for change in accepted)
            elif accepted:
                batch = TableBatch(self._settings, table, columns, accepted)
                refused.update(batch.refused)
                batches.append(batch)
        return batches

    def _fit(self, table: Table, changes: Sequence[Change]) -> Fitting:
        for last in (False, False, True):
            with self._session.transaction(f"reading the table {table}") as cursor:
                fitting = Fitting(self._settings, table, self._catalog.columns(cursor, table), changes)
                if fitting.refused:  # the table may have changed since it was read
                    self._catalog.forget(table)
                    fitting = Fitting(self._settings, table, self._catalog.columns(cursor, table), changes)
            if not fitting.evolution or last:
                break
            try:
                with self._session.transaction(f"changing the table {table}", raw=True) as cursor:
                    self._catalog.evolve(cursor, table, fitting.evolution)
            except load_psycopg2().Error as error:
                if is_retried(error):
                    continue
                if not state_of(error).startswith(_UNEVOLVED):
                    raise failure(f"changing the table {table}", error) from error
                reason = f"the table {table} cannot be changed: {' '.join(str(error).split())}"
                fitting.refused.update(dict.fromkeys(fitting.evolved, reason))
                break
        return fitting

    def _write(self, batches: Sequence[TableBatch], offsets: Mapping[Partition, int]) -> bool:
        """Writes a batch. Returns False if the transaction was rolled back and is to be tried again."""
        try:
            self._transact(batches, offsets)
        except EqualKeysError:
            return self._write_one_by_one(batches, offsets)
        except load_psycopg2().Error as error:
            if state_of(error) == DUPLICATE_IN_STATEMENT and not all(batch.is_one_by_one for batch in batches):
                return self._write_one_by_one(batches, offsets)
            if row_reason(error) is not None:
                self._search(batches)
            elif state_of(error) in STALE:
                self._catalog.forget()
            elif not is_retried(error):
                raise failure("writing a batch", error) from error
            return False
        return True

    def _write_one_by_one(self, batches: Sequence[TableBatch], offsets: Mapping[Partition, int]) -> bool:
        for batch in batches:
            batch.write_one_by_one()
        return self._write(batches, offsets)

    def _transact(self, batches: Sequence[TableBatch], offsets: Mapping[Partition, int]) -> None:
        committed = False
        try:
            with self._session.transaction("writing a batch", raw=True) as cursor:
                # First of all: the locks of the offsets keep other instances out until the commit.
                self._offsets.claim(cursor, sorted(offsets), offsets)
                if batches:
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
                if self._stages.is_full:
                    self._stages.drop(cursor)
                for batch in batches:
                    batch.write(cursor, self._stages)
            committed = True
        finally:
            self._stages.end(committed=committed)

    def _search(self, batches: Sequence[TableBatch]) -> None:
        """Finds the rows that the server refuses. Nothing is written.

        Raises:
            RefusedRecords: There are some.
        """
        refused: dict[int, str] = {}
        try:
            with self._session.transaction("searching refused records", rollback=True) as cursor:
                self._search_in(cursor, batches, refused)
        finally:
            self._stages.end(committed=False)
        if refused:
            raise RefusedRecords(refused)

    def _search_in(self, cursor: Cursor, batches: Sequence[TableBatch], refused: dict[int, str]) -> None:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for batch in batches:
            try:
                found = batch.refused_by_server(cursor, self._stages)
            except EqualKeysError:
                batch.write_one_by_one()
                found = batch.refused_by_server(cursor, self._stages)
            refused.update(found)
