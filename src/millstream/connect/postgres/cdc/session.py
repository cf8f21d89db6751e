"""What the parts of the source share while it runs: connections, and what is known of the database."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from millstream.connect.postgres.cdc.catalog import Catalog, CatalogTable
from millstream.connect.postgres.cdc.changes import Tables
from millstream.connect.postgres.cdc.publication import Publication
from millstream.connect.postgres.cdc.reader import RowReader
from millstream.connect.postgres.cdc.settings import Settings
from millstream.connect.postgres.cdc.slot import Slot
from millstream.connect.postgres.cdc.visibility import PgSnapshot
from millstream.connect.postgres.client import connector_errors, quoted, rows
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

OLDEST_VERSION = 120_000
_NEW_TABLES_INTERVAL = 5.0


class Session:
    """The connections to a database.

    Attributes:
        settings: The settings.
        connection: A connection for short queries.
        catalog: The catalog of the database.
        tables: The captured tables.
        publication: The publication.
        slot: The slot.
    """

    def __init__(self, settings: Settings, application: str) -> None:
        self.settings = settings
        self._application = application
        self.connection: Connection = settings.server.connect(application=application)
        self.catalog = Catalog(self.connection)
        self.tables = Tables(settings, self.catalog)
        self.publication = Publication(settings, self.connection, self.catalog, self.tables.captures)
        self.slot = Slot(settings["slot.name"], self.connection)
        self._reader: RowReader | None = None
        self._checked = 0.0

    def close(self) -> None:
        """Closes the connections."""
        self.close_reader()
        self.connection.close()

    def reader(self) -> RowReader:
        """Returns a connection for reading rows."""
        if self._reader is None:
            self._reader = RowReader(self.settings.server, self._application, self.catalog)
        return self._reader

    def close_reader(self) -> None:
        """Closes the connection for reading rows."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def check_server(self) -> None:
        """Checks that the server can be captured.

        Raises:
            ConnectorError: It cannot.
        """
        version = self.catalog.version
        if version < OLDEST_VERSION:
            raise ConnectorError(
                f"PostgreSQL, {self.settings.server}: version {version // 10_000} is too old",
                hint=f"use version {OLDEST_VERSION // 10_000} or later",
            )
        ((level, recovers),) = self._query("select current_setting('wal_level'), pg_is_in_recovery()")
        if recovers:
            raise ConnectorError(
                f"PostgreSQL, {self.settings.server}: the server is a replica",
                hint="connect to the primary server, or promote this one",
                may_pass=True,
            )
        if level != "logical":
            raise ConnectorError(
                f"PostgreSQL, {self.settings.server}: wal_level is {level}",
                hint="run: ALTER SYSTEM SET wal_level = logical; and restart the server",
            )
        self._check_role()

    def _check_role(self) -> None:
        user = quoted(self.settings.server.user)
        allowed = "select rolreplication or rolsuper from pg_roles where rolname = current_user"
        # Providers of servers have roles of their own that grant replication; those are found out by the attempt.
        if self._query(allowed) == [(False,)] and not self._query(
            "select 1 from pg_roles r where r.rolname in ('rds_replication', 'rds_superuser', 'cloudsqlsuperuser', "
            "'azure_pg_admin') and pg_has_role(current_user, r.oid, 'member')"
        ):
            raise ConnectorError(
                f"PostgreSQL, {self.settings.server}: the role {user} may not replicate",
                hint=f"run: ALTER ROLE {user} REPLICATION",
            )

    def captured(self) -> list[CatalogTable]:
        """Returns the captured tables.

        Raises:
            ConnectorError: The role may not read one of them.
        """
        tables = [self.catalog.table(*row, self.publication.name) for row in self.publication.captured()]
        denied = [table for table in tables if not table.readable]
        if denied:
            user = quoted(self.settings.server.user)
            names = ", ".join(table.quoted_name for table in denied)
            schemas = ", ".join(sorted({quoted(table.schema) for table in denied}))
            raise ConnectorError(
                f"PostgreSQL: the role {user} may not read {names}",
                hint=f"run: GRANT USAGE ON SCHEMA {schemas} TO {user}; GRANT SELECT ON {names} TO {user}",
            )
        return tables

    def table_names(self) -> list[str]:
        """Returns the captured tables, with their schemas."""
        return [f"{schema}.{name}" for _, schema, name in self.publication.captured()]

    def find(self, full_name: str) -> CatalogTable | None:
        """Returns a captured table; None: it does not exist any more."""
        for oid, schema, name in self.publication.captured():
            if f"{schema}.{name}" == full_name:
                return self.catalog.table(oid, schema, name, self.publication.name)
        return None

    def new_tables(self, known: Container[int]) -> dict[int, str]:
        """Adds captured tables that were created meanwhile to the publication, and returns all that are not known.

        It looks for them now and then.
        """
        if time.monotonic() - self._checked < _NEW_TABLES_INTERVAL:
            return {}
        self._checked = time.monotonic()
        self.publication.add_tables()
        return {oid: f"{schema}.{name}" for oid, schema, name in self.publication.captured() if oid not in known}

    def running(self) -> frozenset[int]:
        """Returns the ids of the transactions that are running, with their epochs."""
        return PgSnapshot.parse(self._query("select pg_current_snapshot()::text")[0][0]).running

    def end(self) -> int:
        """Returns the end of the log of the server, as far as it is on the disk."""
        return int(self._query("select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint")[0][0])

    def distances(self, lsn: int) -> tuple[int, int]:
        """Returns how many bytes of its log the server holds back for the slot, and how many follow a position."""
        found = self._query(
            "select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, "
            "(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') - %s)::bigint from pg_replication_slots "
            "where slot_name = %s",
            (lsn, self.slot.name),
        )
        retained, behind = found[0] if found else (0, 0)
        return int(retained or 0), max(int(behind or 0), 0)

    def _query(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with connector_errors("querying the server"), self.connection.cursor() as cursor:
            return rows(cursor, statement, parameters)
