"""Incremental snapshots: rows are read in chunks while changes flow, and ordered among them by transaction ids.

The decision record 0030 has the rule and its proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from millstream.connect.api import SourceRecord
from millstream.connect.postgres.cdc.catalog import CatalogTable
from millstream.connect.postgres.cdc.changes import Tables
from millstream.connect.postgres.cdc.envelope import Origin
from millstream.connect.postgres.cdc.pgoutput import Delete, Insert, Truncate, Update
from millstream.connect.postgres.cdc.position import SnapshotState
from millstream.connect.postgres.cdc.reader import ChunkRows, RowReader, key_of
from millstream.connect.postgres.cdc.records import RecordMaker, now
from millstream.connect.postgres.cdc.settings import Settings
from millstream.connect.postgres.cdc.tables import CapturedTable, TextRow
from millstream.connect.postgres.cdc.visibility import PgSnapshot

_RETRY = 0.02
"""Seconds until a chunk is read again, if its snapshot did not see a transaction whose changes are in the topics."""


class _Chunk:
    """Rows that were read and are not emitted yet, by their keys."""

    def __init__(self, table: CatalogTable, captured: CapturedTable, rows: ChunkRows) -> None:
        self.table = table
        self.captured = captured
        self.snapshot = rows.snapshot
        self.mark = rows.mark
        self.complete = rows.complete
        self.rows: dict[tuple[str, ...], TextRow] = {key_of(table, row): row for row in rows.rows}
        self.keys = frozenset(self.rows)
        self.last = key_of(table, rows.rows[-1]) if rows.rows else None
        self.time = now()


class IncrementalSnapshot:
    """Reads one chunk after the other, and says which rows come before a change.

    Attributes:
        state: The progress; None: no snapshot is being taken.
    """

    def __init__(
        self,
        settings: Settings,
        reader: Callable[[], RowReader],
        tables: Tables,
        find: Callable[[str], CatalogTable | None],
    ) -> None:
        self._size: int = settings["incremental.snapshot.chunk.size"]
        self._maker = RecordMaker(settings)
        self._reader = reader
        self._tables = tables
        self._find = find
        self._chunk: _Chunk | None = None
        self._not_before = 0.0
        self.state: SnapshotState | None = None

    @property
    def reads(self) -> bool:
        """Whether the next chunk can be read."""
        return self.state is not None and self._chunk is None and time.monotonic() >= self._not_before

    def read_chunk(self, visible_to: Callable[[PgSnapshot], bool]) -> None:
        """Reads the next chunk. Its rows are emitted later, at their place among the changes.

        Args:
            visible_to: Returns whether a snapshot sees all transactions whose changes are emitted.
        """
        state = self.state
        assert state is not None
        table = self._find(state.tables[0])
        if table is None or not table.key:
            self._finish_table(state)
            return
        rows = self._reader().chunk(table, state.after, self._size)
        if rows is None or not visible_to(rows.snapshot) or not all(map(rows.snapshot.ended, state.waits)):
            self._not_before = time.monotonic() + _RETRY
            return
        self._chunk = _Chunk(table, self._tables.from_catalog(table), rows)
        for key in state.emitted:
            self._chunk.rows.pop(key, None)

    def before_change(
        self, table: CapturedTable, change: Insert | Update | Delete | Truncate, xid: int
    ) -> list[SourceRecord]:
        """Returns the rows of the chunk that come before a change.

        A change of a transaction that the snapshot does not see is later than the row of its key.
        """
        chunk = self._chunk
        if chunk is None or not chunk.rows or table.full_name != chunk.table.full_name or chunk.snapshot.sees(xid):
            return []
        if isinstance(change, Truncate):
            keys = list(chunk.rows)
        else:
            keys = [key for row in _rows_of(change) if (key := _key_in(chunk, table, row)) in chunk.rows]
        records = []
        for key in dict.fromkeys(keys):
            records.append(self._record(chunk, chunk.rows.pop(key)))
        if keys:
            state = self.state
            assert state is not None
            self.state = replace(state, emitted=(*state.emitted, *dict.fromkeys(keys)), started=True)
        return records

    def passed(self, position: int) -> list[SourceRecord]:
        """Returns the rest of the chunk if the stream has passed all transactions that its snapshot sees."""
        chunk, state = self._chunk, self.state
        if chunk is None or state is None or position < chunk.mark:
            return []
        records = [self._record(chunk, row) for row in chunk.rows.values()]
        self._chunk = None
        if chunk.complete:
            self._finish_table(state)
        else:
            # After a restart, the chunk may end before keys that were emitted early.
            left = tuple(key for key in state.emitted if key not in chunk.keys)
            self.state = replace(state, after=chunk.last, emitted=left, started=True)
        return records

    def _finish_table(self, state: SnapshotState) -> None:
        left = state.tables[1:]
        self.state = SnapshotState(left, started=True, waits=state.waits) if left else None

    def _record(self, chunk: _Chunk, row: TextRow) -> SourceRecord:
        return self._maker.row(chunk.captured, row, Origin(chunk.time, chunk.mark, "incremental"))


def _rows_of(change: Insert | Update | Delete) -> list[TextRow]:
    if isinstance(change, Insert):
        return [change.new]
    if isinstance(change, Delete):
        return [change.old]
    return [change.new] if change.old is None else [change.old, change.new]


def _key_in(chunk: _Chunk, table: CapturedTable, row: TextRow) -> tuple[str, ...]:
    return table.texts(row, chunk.table.key)
