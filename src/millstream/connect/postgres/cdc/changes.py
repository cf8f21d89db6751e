"""Turns the messages of the stream into records, and keeps the position in the stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from millstream.connect.api import SourceRecord
from millstream.connect.postgres.cdc.catalog import Catalog, CatalogTable
from millstream.connect.postgres.cdc.envelope import Origin
from millstream.connect.postgres.cdc.filters import Filters
from millstream.connect.postgres.cdc.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    Truncate,
    Update,
)
from millstream.connect.postgres.cdc.position import Position
from millstream.connect.postgres.cdc.records import RecordMaker
from millstream.connect.postgres.cdc.settings import Settings
from millstream.connect.postgres.cdc.tables import CapturedTable, TableColumn
from millstream.connect.postgres.types import ColumnTypes
from millstream.errors import ConnectorError

BeforeChange = Callable[[CapturedTable, "Insert | Update | Delete | Truncate", int], "list[SourceRecord]"]
"""Returns the records that come before a change of a transaction, which is given by its id."""


class Tables:
    """Makes captured tables of their definitions in the stream and in the catalog."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._filters = Filters(settings)
        self._types = ColumnTypes(catalog.types(), settings.types)

    def captures(self, schema: str, table: str) -> bool:
        """Returns whether a table is captured."""
        return self._filters.table(schema, table)

    def from_stream(self, relation: Relation) -> CapturedTable | None:
        """Returns the table of a message of the stream; None: it is not captured."""
        if not self._filters.table(relation.schema, relation.table):
            return None
        self._catalog.load_types(column.type for column in relation.columns)
        dimensions = self._catalog.dimensions(relation.id)
        columns = [
            TableColumn(name, self._types.of(oid, modifier, dimensions.get(name, 0)), identity)
            for name, oid, modifier, identity in relation.columns
        ]
        if relation.identity in ("d", "i"):
            key = [column.name for column in columns if column.identity]
        else:
            names = {column.name for column in columns}
            key = [name for name in self._catalog.key(relation.id) if name in names]
        return self._table(relation.schema, relation.table, columns, key)

    def from_catalog(self, table: CatalogTable) -> CapturedTable:
        """Returns the table of an entry of the catalog."""
        self._catalog.load_types(column.type for column in table.columns)
        columns = [
            TableColumn(name, self._types.of(oid, modifier, dimensions), name in table.key)
            for name, oid, modifier, dimensions in table.columns
        ]
        return self._table(table.schema, table.name, columns, table.key)

    def _table(self, schema: str, name: str, columns: list[TableColumn], key: Iterable[str]) -> CapturedTable:
        key = self._filters.key_columns(schema, name) or tuple(key)
        included = [self._filters.column(schema, name, column.name) for column in columns]
        return CapturedTable((schema, name), self._settings.prefix, columns, key, included)


class Changes:
    """Follows the stream from a position.

    Attributes:
        begin: The beginning of the transaction that is being read; None between transactions.
        commit_time: The time of the last transaction, in ms.
    """

    def __init__(
        self, settings: Settings, tables: Tables, position: Position, before_change: BeforeChange | None = None
    ) -> None:
        self._tables = tables
        self._maker = RecordMaker(settings)
        self._describes = settings["provide.transaction.metadata"]
        self._before_change = before_change
        self._relations: dict[int, CapturedTable | None] = {}
        self._recorded = False
        self._index = 0
        self._counts: Counter[str] = Counter()
        self._position = position
        self._emitted = position.index
        self.begin: Begin | None = None
        self.commit_time = 0

    def apply(self, message: Message, lsn: int) -> list[SourceRecord]:
        """Returns the records of a message, and moves the position behind it."""
        if isinstance(message, Insert | Update | Delete | Truncate):
            return self._change(message, lsn)
        if isinstance(message, Begin):
            self._start(message)
        elif isinstance(message, Commit):
            return self._commit(message)
        elif isinstance(message, Relation):
            self._relations[message.id] = self._tables.from_stream(message)
        elif isinstance(message, LogicalMessage) and message.transactional:
            self._count()
        return []

    def keep_alive(self, end: int) -> None:
        """Moves the position: the server has sent all transactions that ended before it."""
        if self.begin is None and not self._position.transaction and end > self._position.lsn:
            self._move(self._position.replace(lsn=end))

    @property
    def position(self) -> Position:
        """The position after the last message."""
        if self._position.index != self._emitted:
            self._position = self._position.replace(index=self._emitted)
        return self._position

    def _move(self, position: Position) -> None:
        self._position = position
        self._emitted = position.index

    def _start(self, begin: Begin) -> None:
        self.begin = begin
        self.commit_time = begin.time
        self._index = 0
        self._counts.clear()
        # The server sends transactions again from the position that was reported to it, which is an earlier one.
        self._recorded = begin.lsn < self._position.lsn
        if not self._recorded and begin.lsn != self._position.transaction:
            self._move(self._position.replace(transaction=begin.lsn, index=0))

    def _commit(self, commit: Commit) -> list[SourceRecord]:
        begin, self.begin = self.begin, None
        if begin is None:
            raise ConnectorError("PostgreSQL sent the end of a transaction without its beginning")
        if self._recorded:
            return []
        self._move(self._position.replace(lsn=commit.end, transaction=0, index=0))
        if not self._describes or not self._counts:
            return []
        return [self._maker.bound(_id(begin), begin.time, dict(self._counts))]

    def _change(self, change: Insert | Update | Delete | Truncate, lsn: int) -> list[SourceRecord]:
        begin = self.begin
        if begin is None:
            raise ConnectorError("PostgreSQL sent a change outside of a transaction")
        emit = self._count()
        if not emit and not self._describes:
            return []
        records: list[SourceRecord] = []
        identifiers = change.relations if isinstance(change, Truncate) else (change.relation,)
        for identifier in identifiers:
            table = self._table(identifier)
            if table is None:
                continue
            first = self._describes and not self._counts
            made = self._records(table, change, begin, lsn)
            if first and made:
                records.append(self._maker.bound(_id(begin), begin.time))
            if emit and self._before_change is not None:
                records += self._before_change(table, change, begin.xid)
            records += made
        return records if emit else []

    def _records(
        self, table: CapturedTable, change: Insert | Update | Delete | Truncate, begin: Begin, lsn: int
    ) -> list[SourceRecord]:
        def origin() -> Origin:
            return Origin(begin.time, lsn, "false", begin.xid, begin.lsn, self._block(table, begin))

        if isinstance(change, Truncate):
            return self._maker.truncate(table, origin)
        return self._maker.change(table, change, origin)

    def _block(self, table: CapturedTable, begin: Begin) -> dict[str, object] | None:
        if not self._describes:
            return None
        self._counts[table.full_name] += 1
        return {
            "id": _id(begin),
            "total_order": self._counts.total(),
            "data_collection_order": self._counts[table.full_name],
        }

    def _count(self) -> bool:
        """Counts a change, and returns whether it is not recorded yet."""
        self._index += 1
        if self._recorded or self._index <= self._emitted:
            return False
        self._emitted = self._index
        return True

    def _table(self, identifier: int) -> CapturedTable | None:
        try:
            return self._relations[identifier]
        except KeyError:
            raise ConnectorError(
                f"PostgreSQL sent a change of a table that it has not described: {identifier}"
            ) from None


def _id(begin: Begin) -> str:
    return f"{begin.xid}:{begin.lsn}"
