"""The first snapshot: all rows as of the position of a new slot, under the snapshot that was exported with it."""

from __future__ import annotations

from collections.abc import Generator

from millstream.connect.api import SourceBatch, SourceContext, SourceRecord
from millstream.connect.postgres.cdc.catalog import CatalogTable
from millstream.connect.postgres.cdc.changes import Tables
from millstream.connect.postgres.cdc.envelope import Origin
from millstream.connect.postgres.cdc.position import Position, SnapshotState
from millstream.connect.postgres.cdc.reader import RowReader, key_of
from millstream.connect.postgres.cdc.records import RecordMaker, now
from millstream.connect.postgres.cdc.settings import Settings
from millstream.core.failpoints import declare, reach

BETWEEN_CHUNKS = declare("connect.postgres.first-snapshot.between-chunks")


class FirstSnapshot:
    """Reads the tables in an open snapshot.

    Tables without a key are read first: they cannot be continued under another snapshot.

    Attributes:
        position: The position after the last batch.
    """

    def __init__(self, settings: Settings, reader: RowReader, tables: Tables, position: Position) -> None:
        self._size: int = settings["snapshot.fetch.size"]
        self._batch: int = settings["max.batch.size"]
        self._maker = RecordMaker(settings)
        self._reader = reader
        self._tables = tables
        self.position = position

    def read(
        self, tables: list[CatalogTable], context: SourceContext
    ) -> Generator[SourceBatch | None, None, SourceBatch]:
        """Yields the rows of the tables, which are in the order of `read_order`.

        Returns:
            The last batch. It is for the caller to yield, when the transaction has ended.
        """
        time = now()
        last = next((table for table in reversed(tables) if not self._reader.is_empty(table)), None)
        count = 0
        for number, table in enumerate(tables):
            self._move(tables[number:], None)
            captured = self._tables.from_catalog(table)
            held: list[SourceRecord] = []
            origin = Origin(time, self.position.lsn, "true")
            after: tuple[str, ...] | None = None
            for rows in self._reader.scan(table, self._size):
                for start in range(0, len(rows), self._batch):
                    if held:
                        yield self._batch_of(tables[number:], held, after)
                        reach(BETWEEN_CHUNKS)
                    part = rows[start : start + self._batch]
                    held = [self._maker.row(captured, row, origin) for row in part]
                    after = key_of(table, part[-1])
                    count += len(part)
                context.report(f"first snapshot: {count} rows, at table {table.full_name}")
                yield None
            if held:
                if table is last:
                    held[-1].value["source"]["snapshot"] = "last"
                batch = self._batch_of(tables[number + 1 :], held, None)
                if table is tables[-1]:
                    return batch
                yield batch
        self._move([], None)
        return SourceBatch([], self.position.to_json())

    def _batch_of(
        self, left: list[CatalogTable], records: list[SourceRecord], after: tuple[str, ...] | None
    ) -> SourceBatch:
        self._move(left, after, started=True)
        return SourceBatch(records, self.position.to_json())

    def _move(self, left: list[CatalogTable], after: tuple[str, ...] | None, *, started: bool = False) -> None:
        state = self.position.snapshot
        started = started or (state is not None and state.started)
        names = tuple(table.full_name for table in left)
        snapshot = SnapshotState(names, after, first=True, started=started) if names else None
        self.position = self.position.replace(snapshot=snapshot)


def read_order(tables: list[CatalogTable]) -> list[CatalogTable]:
    """Returns the tables with those without a key first."""
    return sorted(tables, key=lambda table: (bool(table.key), table.full_name))
