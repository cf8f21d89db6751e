"""The publication: the tables whose changes the server sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.connect.postgres.cdc.catalog import Catalog
from millstream.connect.postgres.cdc.settings import Settings
from millstream.connect.postgres.client import connector_errors, literal, quoted
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg2.extensions import connection as Connection  # noqa: N812


class Publication:
    """Creates the publication, and adds tables to it, as the settings say."""

    def __init__(
        self, settings: Settings, connection: Connection, catalog: Catalog, captures: Callable[[str, str], bool]
    ) -> None:
        self.name: str = settings["publication.name"]
        self._mode: str = settings["publication.autocreate.mode"]
        self._user = settings.server.user
        self._connection = connection
        self._catalog = catalog
        self._captures = captures

    def exists(self) -> bool:
        """Returns whether there is such a publication."""
        return bool(self._query("select 1 from pg_publication where pubname = %s"))

    def captured(self) -> list[tuple[int, str, str]]:
        """Returns number, schema and name of the captured tables that are published."""
        return [row for row in self._catalog.published(self.name) if self._captures(row[1], row[2])]

    def prepare(self) -> None:
        """Creates the publication if there is none, else adds the captured tables that it lacks.

        Raises:
            ConnectorError: There is none, and it cannot be created.
        """
        if not self.exists():
            self._create()
        else:
            self.add_tables()

    def add_tables(self) -> None:
        """Adds the captured tables that the publication lacks, if the settings say so."""
        if self._mode != "filtered":
            return
        published = {row[0] for row in self._catalog.published(self.name)}
        missing = [row for row in self._wanted() if row[0] not in published]
        # A publication for all tables, or for the tables of a schema, has new tables by itself.
        if not missing or self._query("select 1 from pg_publication where pubname = %s and puballtables"):
            return
        self._execute(f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {_listed(missing)}", missing)

    def _wanted(self) -> list[tuple[int, str, str]]:
        return [row for row in self._catalog.all_tables() if self._captures(row[1], row[2])]

    def _create(self) -> None:
        name = quoted(self.name)
        if self._mode == "disabled":
            raise ConnectorError(
                f"PostgreSQL: there is no publication {self.name!r}, and publication.autocreate.mode is disabled",
                hint=f"run: CREATE PUBLICATION {name} FOR TABLE …",
            )
        root = " WITH (publish_via_partition_root = true)" if self._catalog.version >= 130_000 else ""
        if self._mode == "all_tables":
            self._execute(f"CREATE PUBLICATION {name} FOR ALL TABLES{root}", [])
            return
        wanted = self._wanted()
        if not wanted:
            raise ConnectorError(
                "PostgreSQL: no table is captured",
                hint="check table.include.list and schema.include.list: patterns match whole names, such as "
                "public.orders",
            )
        self._execute(f"CREATE PUBLICATION {name} FOR TABLE {_listed(wanted)}{root}", wanted)

    def _execute(self, statement: str, tables: Sequence[tuple[int, str, str]]) -> None:
        user = quoted(self._user)
        hint = (
            f"as the owner of the tables, run: {statement}; or: GRANT CREATE ON DATABASE … TO {user}, and make "
            f"{user} a member of the role that owns {', '.join(f'{row[1]}.{row[2]}' for row in tables[:5])}"
        )
        action = statement.split(" FOR ", maxsplit=1)[0].split(" ADD ", maxsplit=1)[0]
        with connector_errors(action, hint=hint), self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _query(self, statement: str) -> list[tuple[object, ...]]:
        with connector_errors("reading the publication"), self._connection.cursor() as cursor:
            cursor.execute(statement.replace("%s", literal(self.name)))
            return cursor.fetchall()


def _listed(tables: Sequence[tuple[int, str, str]]) -> str:
    return ", ".join(f"{quoted(schema)}.{quoted(table)}" for _, schema, table in tables)
