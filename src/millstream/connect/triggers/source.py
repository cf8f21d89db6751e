"""The trigger source."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from millstream.connect.api import Source, SourceBatch, SourceContext
from millstream.connect.polling.databases import connect_to, database_errors, is_sqlite
from millstream.connect.settings import read_settings
from millstream.connect.triggers.changes import ChangeTable, Envelopes
from millstream.connect.triggers.keys import SETTINGS
from millstream.connect.triggers.postgres import PostgresChanges
from millstream.connect.triggers.sqlite import SqliteChanges
from millstream.errors import ConnectorError

_PAUSE = 0.05
"""Seconds between two signs of life while the source waits."""


class TriggerSource(Source):
    """Captures the changes of tables by triggers, for SQLite and PostgreSQL.

    Triggers write each change to a change table, in the transaction of the change: what is rolled back leaves no
    change. The source appends the changes in the order in which they were committed for each row, in Debezium's
    envelope, and deletes them from the change table once they are recorded.

    It sees every insert, update and delete from `install` on, and not the rows that were there before. It does not see:

    - Changes while triggers are disabled: ``session_replication_role = replica`` in PostgreSQL.
    - In SQLite: columns that were added after `install` (call it again), and rows that ``REPLACE`` removes, unless
      ``PRAGMA recursive_triggers`` is on.

    Each change costs the writer an insert. In PostgreSQL, a change waits for all transactions that ran when the source
    looked; a primary key that is deferrable has no order.

    Args:
        config: The settings.

    >>> import sqlite3, tempfile
    >>> path = tempfile.mkdtemp() + "/shop.db"
    >>> shop = sqlite3.connect(path)
    >>> _ = shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    >>> source = TriggerSource({"connection.url": path, "table.include.list": "orders", "topic.prefix": "shop"})
    >>> source.install()
    >>> _ = shop.execute("INSERT INTO orders VALUES (1, 'pen')"), shop.commit(), shop.close()
    >>> [record.value["after"] for record in next(source.read("0", None, None)).records]
    [{'id': 1, 'item': 'pen'}]

    Attributes:
        config: The settings, with defaults.
    """

    settings = SETTINGS

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = read_settings(SETTINGS, config, "TriggerSource")
        self._connect = connect_to(
            self.config["connection.url"],
            user=self.config["connection.user"],
            password=self.config["connection.password"],
            writes=True,
        )

    def install(self) -> None:
        """Creates the change table, and the triggers of the tables. Triggers of an earlier call are replaced.

        Call it again when tables are added, and in SQLite when columns are added.

        Raises:
            ConfigError: There is no such table.
            ConnectorError: The database cannot be reached, or does not permit it.
        """
        with self._opened("installing triggers") as (changes, _database):
            changes.install(self.config["table.include.list"])

    def remove(self) -> None:
        """Drops the triggers, and the change table with the changes that were not read yet."""
        with self._opened("removing triggers") as (changes, _database):
            changes.remove()

    def read(self, split: str, position: Any, context: SourceContext) -> Iterator[SourceBatch | None]:
        """Yields the changes after a position."""
        with self._opened("reading changes") as (changes, database):
            yield from self._read(changes, Envelopes(self.config, database), position, context)

    def _read(
        self, changes: ChangeTable, envelopes: Envelopes, position: Any, context: SourceContext
    ) -> Iterator[SourceBatch | None]:
        installation = changes.installation()
        if position is not None and position["installation"] != installation:
            raise ConnectorError(
                f"the change table {self.config['change.table']} was created anew since the source read it: changes "
                "may be missing",
                hint="reset the connector, and load the tables again",
            )
        last = 0 if position is None else position["sequence"]
        discarded = 0
        while True:
            for bound in changes.bound():
                if bound is None:
                    discarded = self._discard(changes, context, discarded)
                    yield None
                    context.wait(_PAUSE)
                while bound is not None and last < bound:
                    batch = changes.changes(last, bound, self.config["max.batch.size"])
                    last = batch[-1].sequence if batch else bound
                    records = [record for change in batch for record in envelopes.records(change)]
                    yield SourceBatch(records, {"installation": installation, "sequence": last})
            yield None
            discarded = self._discard(changes, context, discarded)
            yield from self._pause(context)

    @staticmethod
    def _discard(changes: ChangeTable, context: SourceContext, discarded: int) -> int:
        """Deletes the changes that are recorded."""
        recorded = 0 if context.committed is None else int(context.committed["sequence"])
        if recorded > discarded:
            try:
                changes.discard(recorded)
            except sqlite3.OperationalError:  # another writer has the lock: the next call deletes them
                return discarded
        return recorded

    def _pause(self, context: SourceContext) -> Iterator[None]:
        end = time.monotonic() + self.config["poll.interval.ms"] / 1_000
        while (left := end - time.monotonic()) > 0:
            if context.wait(min(left, _PAUSE)):
                return
            yield None

    @contextmanager
    def _opened(self, action: str) -> Iterator[tuple[ChangeTable, str]]:
        connection = self._connect()
        name = self.config["change.table"]
        changes: ChangeTable
        if is_sqlite(connection):
            changes, database = SqliteChanges(connection, name), "main"
        else:
            changes, database = PostgresChanges(connection, name), connection.info.dbname
        with closing(changes), database_errors(connection, action):
            yield changes, database
