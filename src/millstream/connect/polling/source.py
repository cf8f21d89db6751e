"""The polling source."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.connect.api import Source, SourceBatch, SourceContext, SourceRecord
from millstream.connect.polling.databases import (
    Connect,
    close,
    connect_to,
    database_errors,
    end_transaction,
    from_position,
    is_postgres,
    milliseconds,
    names_of,
    placeholder,
    row_of,
    to_position,
)
from millstream.connect.polling.keys import SETTINGS, polling_settings
from millstream.connect.polling.statements import Statements
from millstream.connect.postgres.snapshots import have_ended, next_transaction
from millstream.errors import ConfigError, ConnectorError

_PAUSE = 0.05
"""Seconds between two signs of life while the source waits."""


class PollingSource(Source):
    """Polls tables of a database, or a query, for rows with a greater number or a later time.

    Each row that a poll sees is appended exactly once. Polling does not see everything:

    - Deletes.
    - In the mode ``incrementing``: updates.
    - In the modes with a timestamp: of several updates between two polls, all but the last one.
    - Rows of transactions that commit so late that greater numbers or later times were read before.
      ``timestamp.delay.interval.ms`` sets how late they may commit. On PostgreSQL the source also waits until all
      transactions that wrote when the poll began have ended. What remains are transactions that take their number or
      their time before their first write, and sequences with a cache.

    SQLite has one writer at a time: numbers of an ``AUTOINCREMENT`` column become visible in their order.

    Args:
        config: The settings, by the names of Confluent's JDBC source.
        connect: Returns a new DB-API connection, for databases without a URL here.

    >>> source = PollingSource(
    ...     {
    ...         "connection.url": "shop.db",
    ...         "mode": "incrementing",
    ...         "incrementing.column.name": "id",
    ...         "table.whitelist": "orders,items",
    ...         "topic.prefix": "shop.",
    ...     }
    ... )
    >>> source.splits()
    ('orders', 'items')

    Attributes:
        config: The settings, with defaults.
    """

    promise = "at least once"
    reason = (
        "polling appends no row twice, but does not see deletes, all but the last of several updates between two "
        "polls, and rows that are committed later than timestamp.delay.interval.ms allows"
    )
    settings = SETTINGS

    def __init__(self, config: Mapping[str, Any], *, connect: Connect | None = None) -> None:
        self.config = polling_settings(config)
        url = self.config["connection.url"]
        if (url is None) == (connect is None):
            raise ConfigError("PollingSource: give either connection.url or a function that connects, connect=…")
        self._connect = connect or connect_to(
            url, user=self.config["connection.user"], password=self.config["connection.password"]
        )

    def splits(self) -> Sequence[str]:
        """Returns the tables, or one split for a query."""
        return self.config["table.whitelist"] or ("query",)

    def read(self, split: str, position: Any, context: SourceContext) -> Iterator[SourceBatch | None]:
        """Yields the rows of a table after a position."""
        connection = self._connect()
        if is_postgres(connection):
            connection.autocommit = False  # cursors of the server need a transaction
        try:
            poll = _Poll(self.config, split, connection, context)
            with database_errors(connection, f"polling {split}"):
                poll.check_columns()
                if self.config["validate.non.null"]:
                    poll.refuse_nulls()
                yield from poll.rows(position)
        finally:
            close(connection)


class _Poll:
    """Polls one table by one connection."""

    def __init__(self, config: Mapping[str, Any], split: str, connection: Any, context: SourceContext) -> None:
        self._config = config
        self._split = split
        self._connection = connection
        self._context = context
        self._statements = Statements(config, split, placeholder(connection))
        self._delay: int = config["timestamp.delay.interval.ms"]
        self._time: str | None = config["timestamp.column.name"]
        self._increment: str | None = config["incrementing.column.name"]
        prefix = config["topic.prefix"]
        self._topic = prefix if config["query"] else f"{prefix}{split}"

    def check_columns(self) -> None:
        """Raises an error if a column does not exist: SQLite would take its quoted name for a text."""
        names, _rows = self._query(self._statements.sample(), ())
        for column in (self._time, self._increment, *self._config["key.fields"]):
            if column is not None:
                self._place(names, column)

    def refuse_nulls(self) -> None:
        """Raises an error if a poll would never see some rows."""
        if self._query(self._statements.nulls(), ())[1]:
            columns = " or ".join(name for name in (self._time, self._increment) if name)
            raise ConnectorError(
                f"polling {self._split}: {columns} is null in some rows, which would never be read",
                hint="declare the column NOT NULL; validate.non.null=false reads the other rows",
            )

    def rows(self, position: Any) -> Iterator[SourceBatch | None]:
        """Yields the rows after a position, for ever."""
        while True:
            before = position
            batches = self._by_time(position) if self._time else self._by_increment(position)
            for batch in batches:
                if batch is not None:
                    position = batch.position
                yield batch
            if position == before:
                yield from self._pause(self._config["poll.interval.ms"] / 1_000)

    def _by_increment(self, position: Any) -> Iterator[SourceBatch | None]:
        last = None if position is None else from_position(position["incrementing"])
        [(highest,)] = self._query(self._statements.highest(), ())[1]
        if highest is None or (last is not None and highest <= last):
            return
        yield from self._settle(self._delay / 1_000)
        while last is None or last < highest:
            values = (highest,) if last is None else (highest, last)
            names, rows = self._query(self._statements.increments(begins=last is None), values)
            if not rows:
                return
            last = rows[-1][self._place(names, self._increment)]
            yield self._batch(names, rows, {"incrementing": to_position(last)})

    def _by_time(self, position: Any) -> Iterator[SourceBatch | None]:
        [(now,)] = self._query("SELECT CURRENT_TIMESTAMP", ())[1]
        before = milliseconds(now, self._config["timestamp.unit"]) - self._delay
        yield from self._settle(0)
        if self._increment is None:
            yield from self._whole_times(position, before)
            return
        while True:
            values: tuple[Any, ...] = ()
            if position is not None:
                last = from_position(position["timestamp"])
                values = (last, last, from_position(position["incrementing"]))
            statement = self._statements.times_and_increments(begins=position is None)
            names, rows = self._query(statement, values)
            seen = [row for row in rows if self._milliseconds(names, row) < before]
            if not seen:
                return
            at, number = seen[-1][self._place(names, self._time)], seen[-1][self._place(names, self._increment)]
            position = {"timestamp": to_position(at), "incrementing": to_position(number)}
            yield self._batch(names, seen, position)
            if len(seen) < len(rows):
                return

    def _whole_times(self, position: Any, before: float) -> Iterator[SourceBatch | None]:
        """Yields batches that end where the time changes: the position has no other order of rows of the same time."""
        values = () if position is None else (from_position(position["timestamp"]),)
        # A cursor of the server: the result may be larger than the memory.
        cursor = self._connection.cursor("polled") if is_postgres(self._connection) else self._connection.cursor()
        self._execute(cursor, self._statements.times(begins=position is None), values)
        pending: list[Any] = []
        for names, row in self._rows_before(cursor, before):
            place = self._place(names, self._time)
            if len(pending) >= self._config["batch.max.rows"] and row[place] != pending[-1][place]:
                yield self._batch(names, pending, {"timestamp": to_position(pending[-1][place])})
                pending = []
            pending.append(row)
        names = names_of(cursor)
        cursor.close()
        end_transaction(self._connection)
        if pending:
            last = pending[-1][self._place(names, self._time)]
            yield self._batch(names, pending, {"timestamp": to_position(last)})

    def _rows_before(self, cursor: Any, before: float) -> Iterator[tuple[list[str], Any]]:
        while rows := cursor.fetchmany(self._config["batch.max.rows"]):
            names = names_of(cursor)
            for row in rows:
                if self._milliseconds(names, row) >= before:
                    return
                yield names, row

    def _milliseconds(self, names: Sequence[str], row: Sequence[Any]) -> float:
        return milliseconds(row[self._place(names, self._time)], self._config["timestamp.unit"])

    def _settle(self, seconds: float) -> Iterator[None]:
        """Waits for the margin, and for the transactions that run now, which may commit smaller numbers."""
        transaction = None
        if is_postgres(self._connection):
            with self._connection.cursor() as cursor:
                transaction = next_transaction(cursor)
            end_transaction(self._connection)
        yield from self._pause(seconds)
        while transaction is not None and not self._has_ended(transaction):
            yield from self._pause(_PAUSE)

    def _has_ended(self, transaction: int) -> bool:
        with self._connection.cursor() as cursor:
            ended = have_ended(cursor, transaction)
        end_transaction(self._connection)
        return ended

    def _pause(self, seconds: float) -> Iterator[None]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            yield None
            if self._context.wait(min(left, _PAUSE)):
                return

    def _query(self, statement: str, values: tuple[Any, ...]) -> tuple[list[str], list[Any]]:
        cursor = self._connection.cursor()
        try:
            self._execute(cursor, statement, values)
            return names_of(cursor), cursor.fetchall()
        finally:
            cursor.close()
            end_transaction(self._connection)

    def _execute(self, cursor: Any, statement: str, values: tuple[Any, ...]) -> None:
        if values:
            cursor.execute(statement, values)
        else:  # the driver then leaves percent signs alone
            cursor.execute(self._statements.without_parameters(statement))

    def _place(self, names: Sequence[str], column: str | None) -> int:
        if column not in names:
            raise ConnectorError(
                f"polling {self._split}: the result has no column {column!r}", hint=f"it has: {', '.join(names)}"
            )
        return names.index(column)

    def _batch(self, names: Sequence[str], rows: Sequence[Any], position: Any) -> SourceBatch:
        keys: tuple[str, ...] = self._config["key.fields"]
        records = []
        for row in rows:
            value = row_of(names, row)
            records.append(SourceRecord(self._topic, {key: value[key] for key in keys} if keys else None, value))
        return SourceBatch(records, position)
