"""The source for change data capture."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from millstream.connect.api import Source, SourceBatch, SourceContext
from millstream.connect.postgres.cdc.catalog import CatalogTable
from millstream.connect.postgres.cdc.first_snapshot import FirstSnapshot, read_order
from millstream.connect.postgres.cdc.position import Position, SnapshotState
from millstream.connect.postgres.cdc.replication import ReplicationStream
from millstream.connect.postgres.cdc.session import Session
from millstream.connect.postgres.cdc.settings import SETTINGS, Settings
from millstream.connect.postgres.cdc.slot import NewSlot, SlotLostError, SlotState
from millstream.connect.postgres.cdc.streaming import Streaming
from millstream.errors import ConnectorError

_FULL_NAME = re.compile(r"\w+\.\w+")
_WITHOUT_ROWS = ("no_data", "never")
_FIRST_LOCK_TIMEOUT_MS = 2_000
_LAST_LOCK_TIMEOUT_MS = 600_000
_ATTEMPTS, _ATTEMPT_INTERVAL = 100, 0.05


class PostgresSource(Source):
    """Captures the changes of tables in PostgreSQL, as Debezium does: a topic for each table, with its envelopes.

    >>> PostgresSource({"topic.prefix": "shop", "database.dbname": "shop", "database.user": "anna"})
    PostgresSource(shop at localhost:5432)

    Args:
        configuration: The settings, with Debezium's names.

    Raises:
        ConfigError: A setting is unknown, missing or invalid.
    """

    commands = ("snapshot",)
    settings = SETTINGS

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._settings = Settings(configuration)

    def __repr__(self) -> str:
        return f"PostgresSource({self._settings.server})"

    def topics(self) -> Mapping[str, Mapping[str, str]]:
        """Returns the topics of the tables that ``table.include.list`` names without a pattern."""
        prefix, included = self._settings["topic.prefix"], self._settings["table.include.list"] or ()
        return {f"{prefix}.{table}": {} for table in included if _FULL_NAME.fullmatch(table)}

    def read(self, split: str, position: Any, context: SourceContext) -> Iterator[SourceBatch | None]:
        """Yields the rows of the first snapshot, and then the changes."""
        application = f"millstream {context.application} {context.connector}"[:63]
        recorded = None if position is None else Position.from_json(position)
        with contextlib.ExitStack() as stack:
            session = Session(self._settings, application)
            stack.callback(session.close)
            session.check_server()
            run = _Run(session, application, context)
            stack.callback(run.close)
            yield from run.read(recorded)


class _Run:
    """One run of the source, from its start to its end."""

    def __init__(self, session: Session, application: str, context: SourceContext) -> None:
        self._session = session
        self._settings = session.settings
        self._application = application
        self._context = context
        self._stream: ReplicationStream | None = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._settings["slot.drop.on.stop"] and self._context.stopping:
            self._drop_slot()

    def _drop_slot(self) -> None:
        """Drops the slot as soon as the process of the server that has sent the stream has ended."""
        for _ in range(_ATTEMPTS):
            state = self._session.slot.state()
            if state is None or state.pid is None:
                break
            time.sleep(_ATTEMPT_INTERVAL)
        with contextlib.suppress(ConnectorError):
            self._session.slot.drop()

    def read(self, recorded: Position | None) -> Iterator[SourceBatch | None]:
        mode = self._settings["snapshot.mode"]
        position = yield from self._position(recorded, mode)
        if mode == "initial_only":
            return
        if mode == "always" and recorded is not None:
            position = _with_tables(position, [table for table in self._session.captured() if table.key])
        stream = self._connect()
        stream.start(self._session.slot.name, self._session.publication.name)
        yield SourceBatch([], position.to_json())
        yield from Streaming(self._session, stream, position, self._context).read()

    def _position(self, recorded: Position | None, mode: str) -> Generator[SourceBatch | None, None, Position]:
        """Yields the first snapshot if it is needed, and returns the position at which the stream continues."""
        if recorded is None:
            return (yield from self._begin(mode))
        stream = self._connect()
        state = yield from self._free_slot()
        try:
            identity = self._session.slot.check_position(state, recorded, stream)
        except SlotLostError:
            if mode != "when_needed":
                raise
            return (yield from self._begin(mode))
        assert state is not None
        self._session.slot.check_own(state, identity.database)
        snapshot = recorded.snapshot
        if snapshot is None or not snapshot.first:
            return recorded.replace(identity=identity)
        keyless = [
            table.full_name
            for table in self._session.captured()
            if table.full_name in snapshot.tables and not table.key
        ]
        if not snapshot.started:
            return (yield from self._begin(mode))
        if keyless:
            raise ConnectorError(
                f"PostgreSQL: the first snapshot ended within table {keyless[0]}, which has no key, so it cannot be "
                "continued",
                hint="reset the position of the connector and delete its topics, to begin again; or leave out the "
                "table, or give it a primary key",
            )
        return recorded.replace(
            identity=identity, snapshot=SnapshotState(snapshot.tables, snapshot.after, started=True)
        )

    def _begin(self, mode: str) -> Generator[SourceBatch | None, None, Position]:
        """Creates the slot, yields the first snapshot unless the mode says otherwise, and returns the position."""
        session = self._session
        session.publication.prepare()
        stream = self._connect()
        identity = session.slot.identity(stream)
        tables = session.captured()
        state = yield from self._free_slot()
        if state is not None:
            session.slot.check_own(state, identity.database)
            if mode in _WITHOUT_ROWS and state.wal_status != "lost":
                return Position(identity, state.confirmed, known=_numbers(tables))
            session.slot.drop()
        while True:
            before = tables
            slot = yield from self._create_slot(stream)
            position = Position(identity, slot.position, known=_numbers(tables))
            if mode in _WITHOUT_ROWS:
                return position
            session.reader().open_snapshot(slot.snapshot, before)
            tables = session.captured()
            if [(table.oid, table.file) for table in tables] == [(table.oid, table.file) for table in before]:
                break
            # A table that was rewritten meanwhile looks empty in the snapshot.
            session.close_reader()
            session.slot.drop()
        tables = read_order(tables)
        names = tuple(table.full_name for table in tables)
        position = position.replace(snapshot=SnapshotState(names, first=True) if names else None)
        yield SourceBatch([], position.to_json())
        snapshot = FirstSnapshot(self._settings, session.reader(), session.tables, position)
        last = yield from snapshot.read(tables, self._context)
        session.close_reader()
        self._context.report("")
        yield last
        return snapshot.position

    def _free_slot(self) -> Generator[SourceBatch | None, None, SlotState | None]:
        """Returns the state of the slot. A process of the server that is just ending may use it for a moment."""
        for _ in range(_ATTEMPTS):
            state = self._session.slot.state()
            if state is None or state.pid is None or self._context.wait(_ATTEMPT_INTERVAL):
                return state
            yield None
        return self._session.slot.state()

    def _create_slot(self, stream: ReplicationStream) -> Generator[SourceBatch | None, None, NewSlot]:
        timeout = _FIRST_LOCK_TIMEOUT_MS
        while True:
            slot = self._session.slot.create(stream, timeout)
            if slot is not None:
                self._context.report("")
                return slot
            self._context.report("the slot waits for transactions that are running")
            yield None
            timeout = min(2 * timeout, _LAST_LOCK_TIMEOUT_MS)

    def _connect(self) -> ReplicationStream:
        if self._stream is None:
            self._stream = ReplicationStream(self._settings.server, self._application)
        return self._stream


def _with_tables(position: Position, tables: list[CatalogTable]) -> Position:
    state = position.snapshot or SnapshotState(())
    names = (*state.tables, *(table.full_name for table in tables if table.full_name not in state.tables))
    if not names:
        return position
    return position.replace(snapshot=SnapshotState(names, state.after, emitted=state.emitted, started=state.started))


def _numbers(tables: list[CatalogTable]) -> tuple[int, ...]:
    return tuple(sorted(table.oid for table in tables))
