"""What the catalog of a database tells of tables, columns, keys and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.connect.postgres.client import connector_errors, quoted, rows
from millstream.connect.postgres.types import PgType

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812


class CatalogColumn(NamedTuple):
    """A column that is published: its name, its type, the type modifier, and the dimensions of an array."""

    name: str
    type: int
    modifier: int
    dimensions: int


class CatalogTable(NamedTuple):
    """A published table.

    Attributes:
        oid: Its number.
        schema: The name of its schema.
        name: Its name.
        columns: The columns that are published, in order.
        key: The columns of the key; empty: it has none.
        filter: The condition of the publication for its rows; None: all rows are published.
        file: Numbers of its files and those of its partitions: they change if the table is rewritten.
        readable: Whether the role may read its columns.
        row_bytes: The estimated size of a row.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]
    filter: str | None
    file: tuple[int, ...]
    readable: bool
    row_bytes: int

    @property
    def full_name(self) -> str:
        """The name with its schema, as in positions and topics."""
        return f"{self.schema}.{self.name}"

    @property
    def quoted_name(self) -> str:
        """The name with its schema, in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


_TABLES = """
select c.oid, n.nspname, c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and not {partition}
order by 2, 3
"""

_COLUMNS = """
select a.attname, a.atttypid, a.atttypmod, a.attndims
from pg_attribute a
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attnum
"""

# The columns of the primary key, or of the index that is the replica identity. A table whose replica identity is all
# columns, or nothing, has the key of its primary key. The order is that of the index, which chunks are read by.
_KEY = """
select a.attname
from pg_index i
join pg_class c on c.oid = i.indrelid
join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
where c.oid = %s and case c.relreplident when 'i' then i.indisreplident else i.indisprimary end
order by array_position(i.indkey::int2[], a.attnum)
"""

_FILES = """
select pg_relation_filenode(p.relid) from (
    select relid from pg_partition_tree(%s) where isleaf union select %s
) p
where pg_relation_filenode(p.relid) is not null
order by 1
"""

_SIZE = """
select coalesce(sum(pg_table_size(p.relid)) / nullif(sum(greatest(c.reltuples, 0)), 0), 0)::bigint
from (select relid from pg_partition_tree(%s) where isleaf union select %s) p join pg_class c on c.oid = p.relid
"""

_READABLE = """
select coalesce(bool_and(has_column_privilege(%s::oid, a, 'select')), true) from unnest(%s::text[]) a
"""

_TYPES = """
select t.oid, n.nspname, t.typname, t.typtype, t.typelem, t.typdelim, t.typbasetype, t.typtypmod, t.typndims,
    coalesce((select array_agg(e.enumlabel::text order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid),
        '{}')
from pg_type t join pg_namespace n on n.oid = t.typnamespace
"""


class Catalog:
    """Reads the catalog through a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[int, PgType] = {}

    @property
    def version(self) -> int:
        """The version of the server, such as 150004."""
        return int(self._connection.server_version)

    def all_tables(self) -> list[tuple[int, str, str]]:
        """Returns number, schema and name of each table; of partitioned tables only the root."""
        return self._rows(_TABLES.format(partition="c.relispartition"))

    def published(self, publication: str) -> list[tuple[int, str, str]]:
        """Returns number, schema and name of the tables of a publication."""
        return self._rows(
            "select c.oid, p.schemaname, p.tablename from pg_publication_tables p "
            "join pg_namespace n on n.nspname = p.schemaname "
            "join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename where p.pubname = %s order by 2, 3",
            (publication,),
        )

    def table(self, oid: int, schema: str, name: str, publication: str) -> CatalogTable:
        """Returns what a snapshot must know of a table."""
        columns = [CatalogColumn(*row) for row in self._rows(_COLUMNS, (oid,))]
        condition = None
        if self.version >= 150_000:
            published = self._rows(
                "select attnames::text[], rowfilter from pg_publication_tables "
                "where pubname = %s and schemaname = %s and tablename = %s",
                (publication, schema, name),
            )
            if published:
                names, condition = published[0]
                columns = [column for column in columns if column.name in names]
        return CatalogTable(
            oid,
            schema,
            name,
            tuple(columns),
            self.key(oid),
            condition,
            tuple(row[0] for row in self._rows(_FILES, (oid, oid))),
            bool(self._rows(_READABLE, (oid, [column.name for column in columns]))[0][0]),
            int(self._rows(_SIZE, (oid, oid))[0][0]),
        )

    def key(self, oid: int) -> tuple[str, ...]:
        """Returns the columns of the key of a table, in the order of its index; empty: it has none."""
        return tuple(row[0] for row in self._rows(_KEY, (oid,)))

    def dimensions(self, oid: int) -> dict[str, int]:
        """Returns the dimensions of the array columns of a table."""
        statement = "select attname, attndims from pg_attribute where attrelid = %s and attndims > 0 and attnum > 0"
        return dict(self._rows(statement, (oid,)))

    def types(self) -> Mapping[int, PgType]:
        """Returns the types by number. It is filled by `load_types`, and stays the same object."""
        return self._types

    def load_types(self, needed: Iterable[int]) -> None:
        """Reads all types again if one of the needed types is unknown, or if an enum or a domain may have changed."""
        known = self._types
        if all(oid in known and known[oid].kind not in ("e", "d") for oid in needed):
            return
        known.update((row[0], _type(row)) for row in self._rows(_TYPES))

    def _rows(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with connector_errors("reading the catalog"), self._connection.cursor() as cursor:
            return rows(cursor, statement, parameters)


def _type(row: tuple[Any, ...]) -> PgType:
    oid, schema, name, kind, element, delimiter, base, modifier, dimensions, labels = row
    return PgType(oid, schema, name, kind, element, delimiter, base, modifier, dimensions, tuple(labels))
