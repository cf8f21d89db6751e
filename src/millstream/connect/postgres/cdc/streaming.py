"""Follows the stream of changes, takes incremental snapshots on the way, and reports the position to the server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millstream.connect.api import SourceBatch, SourceContext, SourceRecord
from millstream.connect.postgres.cdc.changes import Changes
from millstream.connect.postgres.cdc.incremental import IncrementalSnapshot
from millstream.connect.postgres.cdc.pgoutput import Begin, Commit, decode
from millstream.connect.postgres.cdc.position import Position, SnapshotState
from millstream.connect.postgres.cdc.records import RecordMaker, now
from millstream.connect.postgres.cdc.replication import Keepalive, ReplicationStream, Wal
from millstream.connect.postgres.cdc.session import Session
from millstream.connect.postgres.cdc.visibility import PgSnapshot
from millstream.connect.postgres.client import connector_errors, rows

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

_WAIT = 0.05
_YIELD_INTERVAL = 0.1
_REPORT_INTERVAL = 1.0
_HANDLED = 100
"""How many ids of commands that are done are in the position."""


class Unseen:
    """Transactions whose changes are emitted, and that new snapshots may not see yet.

    The server sends a transaction as soon as its commit record is in the log. It becomes visible a moment later, or
    much later if it waits for a synchronous replica.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._commits: dict[int, int] = {}

    def add(self, xid: int, commit: int) -> None:
        """Adds a transaction and the position of its commit record."""
        self._commits[xid] = commit

    def confirmed(self, position: int) -> int:
        """Returns the position, or that of the first transaction before it that snapshots may not see."""
        if min(self._commits.values(), default=position) < position:
            with connector_errors("reading the current snapshot"), self._connection.cursor() as cursor:
                self.visible_to(PgSnapshot.parse(rows(cursor, "select pg_current_snapshot()::text")[0][0]))
        return min(position, *self._commits.values()) if self._commits else position

    def visible_to(self, snapshot: PgSnapshot) -> bool:
        """Forgets the transactions that a snapshot sees, and returns whether it sees all."""
        self._commits = {xid: commit for xid, commit in self._commits.items() if not snapshot.sees(xid)}
        return not self._commits


class Streaming:
    """The main loop of the source.

    Attributes:
        position: The position after the last batch.
    """

    def __init__(self, session: Session, stream: ReplicationStream, position: Position, context: SourceContext) -> None:
        settings = session.settings
        self._session = session
        self._stream = stream
        self._context = context
        self._maker = RecordMaker(settings)
        self._snapshot = IncrementalSnapshot(settings, session.reader, session.tables, session.find)
        self._snapshot.state = position.snapshot
        self._changes = Changes(settings, session.tables, position, self._snapshot.before_change)
        self._unseen = Unseen(session.connection)
        self._start = position.lsn
        self._goal: int | None = session.end()
        self._batch: int = settings["max.batch.size"]
        self._heartbeat: float = settings["heartbeat.interval.ms"] / 1000
        self._idle: float = min(settings["status.update.interval.ms"] / 1000, self._heartbeat or 3600.0)
        self._handled = dict.fromkeys(position.handled)
        self._known_tables = set(position.known)
        self._records: list[SourceRecord] = []
        self._yielded = position
        self._yield_time = self._position_time = self._heartbeat_time = time.monotonic()
        self._report_time = 0.0
        self._reported = 0

    @property
    def position(self) -> Position:
        """The position after the last message."""
        return self._changes.position.replace(
            snapshot=self._snapshot.state, known=tuple(sorted(self._known_tables)), handled=tuple(self._handled)
        )

    def read(self) -> Iterator[SourceBatch | None]:
        """Yields the changes. It does not end."""
        while True:
            message = self._stream.read()
            if isinstance(message, Wal):
                self._apply(message)
            elif isinstance(message, Keepalive):
                self._changes.keep_alive(message.end)
                if self._changes.begin is None:
                    self._records += self._snapshot.passed(message.end)
            waited = time.monotonic() - self._yield_time
            if message is None or len(self._records) >= self._batch or waited > _YIELD_INTERVAL:
                yield from self._turn(idle=message is None)

    def _turn(self, *, idle: bool) -> Iterator[SourceBatch | None]:
        """Yields what there is, and does what is due."""
        self._take_commands()
        if idle:
            self._heart_beat()
        self._show_progress()
        batch = self._next_batch(idle=idle)
        if batch is not None:
            yield batch
        if idle or batch is None:
            yield None
        self._yield_time = time.monotonic()
        self._report()
        if self._changes.begin is None and self._snapshot.reads and self._caught_up():
            self._snapshot.read_chunk(self._unseen.visible_to)
            # On an idle server, the stream has passed the mark of the chunk already.
            self._records += self._snapshot.passed(self._changes.position.lsn)
        if idle and not self._records:
            self._stream.wait(_WAIT)

    def _show_progress(self) -> None:
        """Shows what the connector must do to catch up: a snapshot, or the log up to its end at the start."""
        passed = max(self._stream.received, self._start, self._reported)
        if self._goal is not None and self._changes.begin is None and passed >= self._goal:
            self._goal = None
        if self._snapshot.state is not None:
            self._context.report(f"snapshot of {', '.join(self._snapshot.state.tables)}")
        else:
            self._context.report("" if self._goal is None else "reading the log up to its end at the start")

    def _apply(self, message: Wal) -> None:
        decoded = decode(message.data)
        if isinstance(decoded, Begin):
            self._records += self._snapshot.passed(decoded.lsn)
        begin = self._changes.begin
        self._records += self._changes.apply(decoded, message.start)
        if isinstance(decoded, Commit) and begin is not None:
            self._unseen.add(begin.xid, begin.lsn)

    def _caught_up(self) -> bool:
        """Returns whether all transactions before the position at the start have been received again."""
        return self._stream.received >= self._start and not self._changes.position.transaction

    def _next_batch(self, *, idle: bool) -> SourceBatch | None:
        position = self.position
        moved = replace(position, lsn=self._yielded.lsn) != self._yielded
        due = time.monotonic() - self._position_time >= self._idle and position != self._yielded
        if not self._records and not (idle and moved and self._changes.begin is None) and not due:
            return None
        records, self._records = self._records, []
        self._yielded, self._position_time = position, time.monotonic()
        return SourceBatch(records, position.to_json())

    def _heart_beat(self) -> None:
        if self._heartbeat and time.monotonic() - self._heartbeat_time >= self._heartbeat:
            self._heartbeat_time = time.monotonic()
            self._records.append(self._maker.heartbeat())

    def _take_commands(self) -> None:
        for command in self._context.commands:
            if command["id"] in self._handled:
                continue
            self._handled = dict.fromkeys([*self._handled, command["id"]][-_HANDLED:])
            if command.get("type") == "snapshot":
                self._request(command.get("tables", ()))
        new = self._session.new_tables(self._known_tables)
        if new:
            self._known_tables |= set(new)
            self._request([re.escape(name) for name in new.values()], self._session.running())

    def _request(self, patterns: Any, waits: Iterable[int] = ()) -> None:
        """Adds tables to the snapshot. They are read after some transactions have ended."""
        chosen = []
        for pattern in patterns:
            names = [name for name in self._session.table_names() if re.fullmatch(pattern, name)]
            chosen += names
            if not names:
                self._context.warn(f"no captured table matches {pattern!r}: there is no snapshot of it")
        for name in list(chosen):
            table = self._session.find(name)
            if table is None or not table.key:
                self._context.warn(f"table {name} has no key: there is no incremental snapshot of it")
                chosen.remove(name)
        state = self._snapshot.state
        waiting = () if state is None else state.tables
        # A table that is being read is read again afterwards: its first rows may be older than the command.
        added = [name for name in dict.fromkeys(chosen) if name not in waiting[1:]]
        if added:
            tables = (*waiting, *added)
            state = SnapshotState(()) if state is None else state
            self._snapshot.state = replace(state, tables=tables, waits=(*state.waits, *waits))

    def _report(self) -> None:
        """Reports the recorded position to the server, and updates the metrics."""
        since = time.monotonic() - self._report_time
        if since < _REPORT_INTERVAL and not self._stream.answer_requested:
            return
        self._report_time = time.monotonic()
        committed = self._context.committed
        recorded = committed["lsn"] if committed else 0
        self._reported = max(self._reported, self._unseen.confirmed(recorded) if recorded else 0)
        self._stream.report(self._reported)
        retained, behind = self._session.distances(self.position.lsn)
        self._context.gauge("slot.retained.bytes", retained)
        self._context.gauge("lag.bytes", behind)
        lag = now() - self._changes.commit_time if behind and self._changes.begin is not None else 0
        self._context.gauge("lag.ms", max(lag, 0))
