"""A table of PostgreSQL for look-up joins."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from millstream.config.secrets import protected
from millstream.connect.lookup import LookupTable
from millstream.connect.postgres.client import connector_errors, quoted, rows
from millstream.connect.postgres.urls import server_of
from millstream.core.durations import Duration, to_ms
from millstream.errors import ConfigError, ConnectorError, suggestion

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection, cursor as Cursor  # noqa: N812


def postgres_table(
    url: str,
    table: str,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    timeout: Duration = "5s",
    batch_size: int = 1_000,
    concurrency: int = 4,
) -> PostgresTable:
    """Returns a table, or a view, of PostgreSQL for `Stream.lookup`.

    >>> postgres_table("postgresql://db.example.com/shop", "public.products", key="sku")
    PostgresTable(public.products, shop at db.example.com:5432)

    Args:
        url: The database: ``postgresql://host:port/database``.
        table: The table, as ``schema.table``, or ``table`` in the search path.
        key: The column to look up, or several. The key of a record is then a tuple.
        columns: The columns of the rows; by default all.
        user: The user, unless the URL has it.
        password: The password, as ``${env:NAME}`` or ``${file:PATH}``, which each process resolves by itself.
        timeout: The longest time of a query.
        batch_size: The greatest number of keys of a query.
        concurrency: The number of queries at the same time.

    Raises:
        ConfigError: The URL or an argument is wrong.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"postgres_table: key is {key!r}", hint="it is the name of a column, or several names")
    if batch_size < 1 or concurrency < 1:
        raise ConfigError("postgres_table: batch_size and concurrency are at least 1")
    server_of(url, user=user)  # a mistake in it is found now
    return PostgresTable(
        url,
        table,
        names,
        None if columns is None else tuple(columns),
        user,
        password,
        to_ms(timeout, "timeout"),
        batch_size,
        concurrency,
    )


class PostgresTable(LookupTable):
    """A table of PostgreSQL; see `postgres_table`."""

    def __init__(
        self,
        url: str,
        table: str,
        key: tuple[str, ...],
        columns: tuple[str, ...] | None,
        user: str | None,
        password: str | None,
        timeout_ms: int,
        batch_size: int,
        concurrency: int,
    ) -> None:
        self.name = table
        self.batch_size = batch_size
        self.concurrency = concurrency
        self._url, self._user, self._password = url, user, password
        self._key = key
        self._columns = columns
        self._timeout_ms = timeout_ms
        self._start()

    def _start(self) -> None:
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._query: str | None = None

    def __repr__(self) -> str:
        return f"PostgresTable({self.name}, {server_of(self._url, user=self._user)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in {"_idle", "_query"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def fetch(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Returns the rows of keys, as dicts of columns."""
        parts = [(key,) for key in keys] if len(self._key) == 1 else keys
        parameters = [[_text(part[place]) for part in parts] for place in range(len(self._key))]
        with (
            connector_errors(f"looking up {self.name}"),
            self._connected() as connection,
            connection.cursor() as cursor,
        ):
            if self._query is None:
                self._query = self._query_for(cursor)
            cursor.execute(self._query, parameters)
            names = [column.name for column in cursor.description or ()][1:]
            found: dict[Any, Any] = {}
            for number, *row in cursor.fetchall():
                key = keys[number - 1]
                if key in found:
                    raise ConnectorError(
                        f"table {self.name} has several rows of key {key!r}",
                        hint=f"look up by columns that are unique; {', '.join(self._key)} are not",
                    )
                found[key] = dict(zip(names, row, strict=True))
        return found

    def _query_for(self, cursor: Cursor) -> str:
        """The query of rows, given an array of texts for each column of the key.

        The texts are cast to the types of the columns, so that an index of the key is used.
        """
        table = ".".join(map(quoted, self.name.split(".")))
        types = dict(
            rows(
                cursor,
                "select attname, format_type(atttypid, null) from pg_attribute "
                "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                (table,),
            )
        )
        for name in (*self._key, *(self._columns or ())):
            if name not in types:
                hint = suggestion(name, types) or f"it has: {', '.join(types)}"
                raise ConnectorError(f"table {self.name} has no column {name!r}", hint=hint)
        arrays = ", ".join(f"%s::text[]::{types[name]}[]" for name in self._key)
        wanted = ", ".join(f"k{place}" for place in range(len(self._key)))
        equal = " and ".join(f"t.{quoted(name)} = k.k{place}" for place, name in enumerate(self._key))
        shown = "t.*" if self._columns is None else ", ".join(f"t.{quoted(name)}" for name in self._columns)
        return (
            f"select k.n, {shown} from unnest({arrays}) with ordinality as k({wanted}, n) "  # noqa: S608  (quoted)
            f"join {table} as t on {equal}"
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection that no other thread uses; one that has failed is closed."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            password = None if self._password is None else protected("password", self._password)
            server = server_of(self._url, user=self._user, password=password)
            connection = server.connect(application="millstream lookup")
            with connection.cursor() as cursor:
                cursor.execute(f"set statement_timeout = {self._timeout_ms}")
                cursor.execute("set default_transaction_read_only = on")
        try:
            yield connection
        except BaseException:
            with contextlib.suppress(Exception):
                connection.close()
            raise
        self._idle.put(connection)


def _text(value: Any) -> str | None:
    """The text form of a value of a key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return None if value is None else str(value)
